#include "am/inspect/target.h"

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/tensor_source.h"
#include "am/inspect/rank_processes.h"
#include "am/inspect/sharded_holder.h"
#include "am/inspect/stored_holder.h"
#include "am/launch/run_folder.h"
#include "am/nn/runnable.h"
#include "am/parallel/parallel_model.h"
#include "am/planner/rules.h"

namespace am::inspect {

namespace fs = std::filesystem;

namespace {

constexpr const char* kKinds =
    "looked for: *.safetensors (Hugging Face), checkpoint.json (am-run's step-N), "
    "checkpoints/step-N (a run folder), "
    "or a plan (*.toml)";

std::optional<Target> latest_in(const fs::path& folder) {
  const auto latest = launch::latest_checkpoint(folder);
  if (!latest) return std::nullopt;
  return Target{
      TargetKind::kWeights, latest->path,
      cat(folder.string(), ": opening its latest checkpoint, ", latest->path.filename().string())};
}

Target recognize(const fs::path& path) {
  if (!fs::exists(path)) {
    throw Error(ErrorKind::kIo, cat(path.string(), ": no such file or folder"));
  }
  if (fs::is_directory(path)) {
    if (checkpoint::is_tensor_source(path)) return {TargetKind::kWeights, path, {}};
    if (const auto latest = latest_in(path / "checkpoints")) return *latest;
    if (const auto latest = latest_in(path)) return *latest;
    throw Error(ErrorKind::kFormat, cat(path.string(), ": nothing in this folder can be opened"),
                kKinds);
  }
  if (path.extension() == ".toml") return {TargetKind::kPlan, path, {}};
  if (checkpoint::is_tensor_source(path)) return {TargetKind::kWeights, path, {}};
  throw Error(ErrorKind::kFormat, cat(path.string(), ": neither a plan nor weights"), kKinds);
}

}  // namespace

Target find_target(const fs::path& path) {
  try {
    return recognize(path);
  } catch (const fs::filesystem_error& error) {  // no permission to look
    throw Error(ErrorKind::kIo, cat(path.string(), ": ", error.code().message()));
  }
}

std::optional<OpenedPlan> open_plan(const fs::path& file,
                                    const std::vector<config::Override>& overrides,
                                    int64_t world_size, config::Plugins plugins,
                                    Diagnostics& found) {
  auto plan = config::load_plan(file, overrides, found);
  if (!plan) return std::nullopt;
  plan->plugins = plugins;
  planner::CheckedPlan checked = planner::check(*plan, world_size, found);
  if (checked.mesh) parallel::check_supported(*plan, *checked.mesh, found);
  parallel::check_backend(*plan, found);
  if (checked.model) nn::check_trainable(*checked.model, found);
  if (!found.ok() || !checked.mesh || !checked.model) return std::nullopt;
  auto layout = planner::build_layout(*plan, *checked.model, *checked.mesh, found);
  if (!layout) return std::nullopt;
  return OpenedPlan{*std::move(plan), *std::move(checked.model), *std::move(layout)};
}

std::unique_ptr<Interpreter> open_target(const Target& target, const OpenOptions& options,
                                         Diagnostics& found) {
  if (target.kind == TargetKind::kWeights) {
    auto holder = std::make_unique<StoredHolder>(checkpoint::open_tensor_source(target.path));
    return std::make_unique<LocalInterpreter>(Session(std::move(holder), options.session));
  }
  const auto opened =
      open_plan(target.path, options.overrides, options.nproc, options.plugins, found);
  if (!opened) return nullptr;
  const int64_t ranks = opened->layout.mesh.world_size();
  if (ranks > kMostRanks) {
    throw Error(ErrorKind::kPlan,
                cat(target.path.string(), ": ", ranks, " ranks are more than the ", kMostRanks,
                    " that am-repl starts on one machine"),
                "am-plan shows layouts of any size; --set mesh.dp_size=.. makes this one smaller");
  }
  if (ranks == 1) {
    auto holder = std::make_unique<ShardedHolder>(opened->plan, opened->model, opened->layout,
                                                  runtime::World::single());
    return std::make_unique<LocalInterpreter>(Session(std::move(holder), options.session));
  }
  WorkerSetup setup;
  setup.plan = target.path;
  setup.overrides = options.overrides;
  setup.plugins = options.plugins;
  setup.session = options.session;
  return std::make_unique<RankProcesses>(options.worker_argv, setup, ranks);
}

}  // namespace am::inspect
