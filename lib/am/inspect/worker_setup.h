// The first message to a rank that am-repl starts.
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
  SessionOptions session;  // without `interrupted`, which is not sent
};

Json to_json(const WorkerSetup& setup);
WorkerSetup worker_setup(const Json& json);

}  // namespace am::inspect
