// What a rank that am-repl starts is told first.
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
  SessionOptions session;  // `interrupted` does not travel
};

Json to_json(const WorkerSetup& setup);
WorkerSetup worker_setup(const Json& json);

}  // namespace am::inspect
