// Parses the command line of am-run.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/config/plan.h"
#include "am/control/tcp.h"
#include "am/job/on_failure.h"
#include "common/output.h"

namespace am_run {

struct Options {
  std::string plan;                             // the plan file; empty with --exec
  std::vector<std::string> command;             // the program of --exec and its arguments
  std::vector<am::config::Override> overrides;  // keys that --set, --steps and --resume change
  std::string run_dir;                          // run folder; empty: runs/NAME-OF-PLAN-OR-PROGRAM
  // Number of ranks on this machine. 0: the plan's world size divided by nnodes, or 1 with --exec.
  int64_t nproc = 0;
  int64_t nnodes = 1;     // number of machines of the job
  int64_t node_rank = 0;  // number of this machine in the job, from 0
  std::string rdzv;       // HOST:PORT of node 0's launcher; required if nnodes > 1
  // Names of the flags among --nproc, --nnodes, --node-rank, --rdzv and --max-restarts that the
  // command line contains.
  std::vector<std::string> placement;
  int64_t ranks_per_gpu = 0;  // ranks that share one GPU; 0: as AM_RANKS_PER_GPU specifies
  int64_t max_restarts = 0;
  int64_t timeout_seconds = 600;  // seconds that a rank or launcher waits for others
  bool timeout_given = false;     // whether --timeout was given; if not, the plan's timeout applies
  bool attach = true;             // am-repl can attach to the job
  std::optional<am::control::TcpAddress> attach_at;  // TCP address for am-repl besides the socket
  am::job::OnFailure on_failure;
  int stopped_status = 0;  // exit status of a job that was stopped before its last step
  bool force = false;      // start even if the job does not fit into this machine's memory
  am::config::Plugins plugins = am::config::Plugins::kRefused;
  bool dry_run = false;
  int64_t rank = 0;  // number of the rank that --dry-run runs
  bool verify_layout = false;
  std::string fault;  // name of a fault to inject, for tests; empty: none
  int64_t steps = 0;  // value of --steps; 0: not given
  am_apps::Output output;

  bool exec() const { return !command.empty(); }
};

void add_run_dir(CLI::App& app, Options& options);
// Adds the flags that determine which ranks of the job this machine runs (--nproc, --nnodes,
// --node-rank and --rdzv), and --ranks-per-gpu.
void add_placement(CLI::App& app, Options& options);
// Records in options.placement which placement flags the command line contains. If --rdzv is
// invalid or flags contradict each other, prints an error to stderr and returns false.
bool placement_is_possible(const CLI::App& app, Options& options);
// Whether the text is HOST:PORT with a port from 1 to 65535. HOST may be an IPv6 address in
// brackets.
bool is_host_and_port(const std::string& text);
// Returns the host and the port of a valid --rdzv. For example, "node0:29500" gives {"node0",
// 29500}, and "[fd00::1]:29500" gives {"fd00::1", 29500}.
std::pair<std::string, int> host_and_port(const std::string& rdzv);

// Parses am-run's command line. Returns the options, or nothing if the program must exit with
// `status`: 0 after printing help or version, 2 after a wrong command line, which is reported on
// stderr. `libraries` returns the text about libtorch and NCCL that --version prints.
std::optional<Options> parse_options(int argc, char** argv,
                                     const std::function<std::string()>& libraries, int& status);
// Parses the command line of `am-run doctor`, as parse_options() does for am-run. argv[0] is
// "doctor".
std::optional<Options> parse_doctor_options(int argc, char** argv, int& status);

}  // namespace am_run
