// am-run's command line.
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
#include "common/output.h"

namespace am_run {

struct Options {
  std::string plan;                             // empty with --exec
  std::vector<std::string> command;             // words after --exec
  std::vector<am::config::Override> overrides;  // from --set, --steps and --resume
  std::string run_dir;                          // empty: runs/<plan's or command's name>
  int64_t nproc = 0;  // ranks on this machine; 0: the plan's world size over nnodes, 1 with --exec
  int64_t nnodes = 1;
  int64_t node_rank = 0;
  std::string rdzv;                    // HOST:PORT, required if nnodes > 1
  std::vector<std::string> placement;  // the flags given among --nproc, --nnodes, --node-rank,
                                       // --rdzv and --max-restarts
  int64_t ranks_per_gpu = 0;           // 0: from the environment
  int64_t max_restarts = 0;
  int64_t timeout_seconds = 600;
  bool timeout_given = false;  // otherwise ranks use the plan's runtime.timeout_minutes
  bool attach = true;          // am-repl can attach to the job
  std::optional<am::control::TcpAddress> attach_at;  // additional TCP address
  int stopped_status = 0;  // exit status of a job stopped before its last step
  bool force = false;      // start even if the job does not fit into this machine's memory
  am::config::Plugins plugins = am::config::Plugins::kRefused;
  bool dry_run = false;
  int64_t rank = 0;  // with --dry-run
  bool verify_layout = false;
  std::string fault;  // fault to inject; empty: none
  int64_t steps = 0;  // --steps; 0: not given
  am_apps::Output output;

  bool exec() const { return !command.empty(); }
};

// Adds --nproc, --nnodes, --node-rank and --rdzv, which place this machine in the job, and
// --ranks-per-gpu.
void add_placement(CLI::App& app, Options& options);
// Records the given placement flags in options.placement. If they contradict each other, prints how
// on stderr and returns false.
bool placement_is_possible(const CLI::App& app, Options& options);
// Accepts HOST:PORT with a port from 1 to 65535; an IPv6 address may be in brackets.
bool is_host_and_port(const std::string& text);
// "node0:29500" -> {"node0", 29500}, "[fd00::1]:29500" -> {"fd00::1", 29500}. Requires a valid
// --rdzv.
std::pair<std::string, int> host_and_port(const std::string& rdzv);

// Returns the options, or nothing if main must exit with `status`: 0 after help or version, 2 after
// a wrong line, which is reported on stderr. `libraries`: text about libtorch and NCCL for
// --version.
std::optional<Options> parse_options(int argc, char** argv,
                                     const std::function<std::string()>& libraries, int& status);
// parse_options() for `am-run doctor`; argv[0] is "doctor".
std::optional<Options> parse_doctor_options(int argc, char** argv, int& status);

}  // namespace am_run
