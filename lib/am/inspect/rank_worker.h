// A rank that am-repl started: holds its part of a plan's model and runs the commands that arrive
// on a socket.
#pragma once

#include <filesystem>
#include <vector>

#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/inspect/session.h"

namespace am::inspect {

// What a worker is told first.
struct WorkerSetup {
  std::filesystem::path plan;
  std::vector<config::Override> overrides;
  config::Plugins plugins = config::Plugins::kRefused;
  SessionOptions session;  // `interrupted` does not travel
};

Json to_json(const WorkerSetup& setup);
WorkerSetup worker_setup(const Json& json);

// Joins the ranks that the environment's variables name, answers commands until the socket closes.
// SIGINT interrupts the command that runs. The process's exit status; errors have been sent,
// nothing is thrown.
int run_rank_worker(int socket);

}  // namespace am::inspect
