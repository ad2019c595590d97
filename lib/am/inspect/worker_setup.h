// The first message that am-repl sends to each rank that it starts, and its conversion to JSON and
// back.
#pragma once

#include <filesystem>
#include <vector>

#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/inspect/session.h"

namespace am::inspect {

struct WorkerSetup {
  std::filesystem::path plan;
  std::vector<config::Override> overrides;
  config::Plugins plugins = config::Plugins::kRefused;
  SessionOptions session;  // options of the session; callbacks and pointers are not sent
};

Json to_json(const WorkerSetup& setup);
WorkerSetup worker_setup(const Json& json);

}  // namespace am::inspect
