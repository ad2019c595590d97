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
  std::vector<std::string> command;             // what follows --exec
  std::vector<am::config::Override> overrides;  // --set, and what --steps and --resume stand for
  std::string run_dir;                          // empty: runs/<plan's or command's name>
  int64_t nproc = 0;  // ranks on this machine; 0: the plan's world over nnodes, 1 with --exec
  int64_t nnodes = 1;
  int64_t node_rank = 0;
  std::string rdzv;                    // HOST:PORT, needed with nnodes > 1
  std::vector<std::string> placement;  // which of --nproc, --nnodes, --node-rank, --rdzv and
                                       // --max-restarts were given
  int64_t ranks_per_gpu = 0;           // 0: as the environment says
  int64_t max_restarts = 0;
  int64_t timeout_seconds = 600;
  bool timeout_given =
      false;           // else the plan's runtime.timeout_minutes, where ranks wait for ranks
  bool attach = true;  // am-repl can attach to the job
  std::optional<am::control::TcpAddress> attach_at;  // over TCP too
  int stopped_status = 0;  // exit status of a job that was stopped before its last step
  bool force = false;      // a job that does not fit into this machine's memory starts all the same
  am::config::Plugins plugins = am::config::Plugins::kRefused;
  bool dry_run = false;
  int64_t rank = 0;  // of --dry-run
  bool verify_layout = false;
  std::string fault;  // to plant; empty: none
  int64_t steps = 0;  // --steps; 0: not given
  am_apps::Output output;

  bool exec() const { return !command.empty(); }
};

// --nproc, --nnodes, --node-rank and --rdzv: which part of the job is this machine's; and
// --ranks-per-gpu.
void add_placement(CLI::App& app, Options& options);
// Records in options.placement which of them the line has; says on stderr how they do not fit
// together.
bool placement_is_possible(const CLI::App& app, Options& options);
// HOST:PORT with a port from 1 to 65535; an IPv6 address may stand in brackets.
bool is_host_and_port(const std::string& text);
// "node0:29500" -> {"node0", 29500}, "[fd00::1]:29500" -> {"fd00::1", 29500}; of a checked --rdzv.
std::pair<std::string, int> host_and_port(const std::string& rdzv);

// Exits are for main: nothing means that help or the version was printed (status 0) or that the
// line was wrong (status 2, said on stderr). `libraries`: what --version says of libtorch and NCCL.
std::optional<Options> parse_options(int argc, char** argv,
                                     const std::function<std::string()>& libraries, int& status);
// The same of `am-run doctor`, whose name is argv[0].
std::optional<Options> parse_doctor_options(int argc, char** argv, int& status);

}  // namespace am_run
