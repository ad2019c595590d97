#include "am/parallel/module/module_dry_run.h"

#include <exception>
#include <utility>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/launch/environment/environment.h"

namespace am::parallel {

std::unique_ptr<ModuleDryRun> ModuleDryRun::begin(const runtime::World& world) {
  const auto file = launch::process_environment()(launch::kDryRunVariable);
  if (!file || !world.is_fake()) return nullptr;
  return std::make_unique<ModuleDryRun>(world, *file);
}

ModuleDryRun::ModuleDryRun(const runtime::World& world, std::filesystem::path file)
    : world_(world), file_(std::move(file)) {
  world_.context()->on_collective = [this](const runtime::Collective& collective, int64_t bytes) {
    runtime::count_collective(now_, collective, bytes);
  };
}

void ModuleDryRun::forward_begins() {
  if (std::exchange(in_pass_, true)) return;
  between_.reset();
  if (passes_ > 0) last_ = now_;
  now_.clear();
}

void ModuleDryRun::backward_begins() { after_forward_ = meter_.live().total(); }

void ModuleDryRun::backward_ends() {
  in_pass_ = false;
  ++passes_;
  after_backward_ = meter_.live().total();
  between_.emplace(tensor::TensorUse::kOptimizer);
}

ModuleDryRun::~ModuleDryRun() {
  between_.reset();
  world_.context()->on_collective = nullptr;
  if (!in_pass_ && passes_ > 0) last_ = now_;
  Json components = Json::object();
  for (size_t use = 0; use < tensor::kTensorUses; ++use) {
    components[tensor::kTensorUseNames[use]] = meter_.peak().bytes[use];
  }
  Json collectives = Json::array();
  for (const runtime::CollectiveCount& each : last_) {
    collectives.push_back(
        {{"op", each.op}, {"group", each.group}, {"bytes", each.bytes}, {"count", each.count}});
  }
  Json phases = Json::array();
  phases.push_back({{"phase", "forward"}, {"live_bytes", after_forward_}});
  phases.push_back({{"phase", "backward"}, {"live_bytes", after_backward_}});
  const Json report = {{"rank", world_.rank()},     {"world_size", world_.size()},
                       {"passes", passes_},         {"peak_bytes", meter_.peak().total()},
                       {"components", components},  {"phases", phases},
                       {"collectives", collectives}};
  try {
    write_file_atomically(file_, dump_json(report, -1));
  } catch (const std::exception&) {
    // Ignored, because am-run reports that the file is missing.
  }
}

}  // namespace am::parallel
