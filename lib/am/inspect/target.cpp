#include "am/inspect/target.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/inspect/attached.h"
#include "am/inspect/rank_processes.h"
#include "am/inspect/sharded_view.h"
#include "am/inspect/stored_view.h"
#include "am/parallel/parallel_model.h"
#include "am/planner/host_memory.h"
#include "am/planner/job.h"
#include "am/run_folder/step_folders.h"
#include "am/runtime/engine.h"
#include "am/runtime/engine_plugin.h"
#include "am/stored/tensor_source.h"

namespace am::inspect {

namespace fs = std::filesystem;

namespace {

constexpr const char* kKinds =
    "looked for: *.safetensors (Hugging Face), .metadata (torch.distributed.checkpoint, "
    "torchtitan, "
    "OLMo-core, Megatron, NeMo AutoModel), "
    "*.pt, *.bin (torch.save), "
    "checkpoint.json (am-run's step-N), "
    "checkpoints/step-N (a run folder), "
    "or a plan (*.toml)";

// The one that am-run would go on from; what it skips is said.
std::optional<Target> newest_in(const fs::path& folder) {
  const auto newest = run_folder::newest_complete(folder);
  const std::string skipped = join(newest.skipped, "; ");
  if (newest.found) {
    return Target{TargetKind::kWeights,
                  newest.found->path,
                  cat(folder.string(), ": opening its newest checkpoint, ",
                      newest.found->path.filename().string(),
                      skipped.empty() ? "" : cat("; skipped: ", skipped)),
                  {}};
  }
  if (skipped.empty()) return std::nullopt;
  throw Error(ErrorKind::kFormat, cat(folder.string(), ": no checkpoint is whole: ", skipped));
}

// The job of a run folder, while it runs.
std::optional<Target> job_in(const fs::path& folder) {
  const auto job = control::find_job(run_folder::RunFolder(folder));
  if (!job) return std::nullopt;
  if (job->here) return Target{TargetKind::kJob, folder, {}, job->address};
  throw Error(ErrorKind::kUsage,
              cat(folder.string(), ": its job runs on ", job->address.host,
                  ", and a job can be attached to from its own machine"),
              cat(control::way_to(job->address, folder), "; at rest: am-repl ",
                  (folder / "checkpoints").string()));
}

// A run's own plan says how its model began, and not what it has become.
std::string run_note(const fs::path& plan) {
  const fs::path folder = fs::absolute(plan).parent_path();
  const fs::path checkpoints = folder / "checkpoints";
  const auto newest = run_folder::newest_complete(checkpoints).found;
  if (!newest) return {};
  return cat(plan.string(), ": the plan of a run; what was trained is in ",
             (plan.parent_path() / "checkpoints").string(), ", the newest is ",
             newest->path.filename().string());
}

// A run, weights or a plan; not what we may not look at.
bool looks_openable(const fs::path& path) {
  try {
    if (!fs::is_directory(path)) return path.extension() == ".toml";
    return fs::is_directory(path / "checkpoints") || stored::is_tensor_source(path);
  } catch (const fs::filesystem_error&) {
    return false;
  }
}

// What can be opened one step down, of a folder of runs or of plans; empty where nothing can.
std::string openable_in(const fs::path& folder) {
  constexpr size_t kMostEntries = 1000;  // that are looked at
  constexpr size_t kShown = 6;
  std::vector<std::string> names;
  size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (++entries > kMostEntries) break;
    if (looks_openable(entry.path())) names.push_back(entry.path().string());
  }
  if (names.empty()) return {};
  std::sort(names.begin(), names.end(), natural_less);
  const size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  return cat("in it: ", join(names, ", "), more == 0 ? "" : cat(" and ", more, " more"));
}

Target recognize(const fs::path& path) {
  if (!fs::exists(path)) {
    throw Error(ErrorKind::kIo, cat(path.string(), ": no such file or folder"));
  }
  if (fs::is_directory(path)) {
    if (auto job = job_in(path)) return *std::move(job);
    if (stored::is_tensor_source(path)) return {TargetKind::kWeights, path, {}, {}};
    if (const auto newest = newest_in(path / "checkpoints")) return *newest;
    if (const auto newest = newest_in(path)) return *newest;
    const std::string below = openable_in(path);
    throw Error(ErrorKind::kFormat, cat(path.string(), ": nothing in this folder can be opened"),
                below.empty() ? kKinds : below);
  }
  if (path.extension() == ".toml") return {TargetKind::kPlan, path, run_note(path), {}};
  if (stored::is_tensor_source(path)) return {TargetKind::kWeights, path, {}, {}};
  if (path.extension() == ".distcp") {
    throw Error(
        ErrorKind::kFormat,
        cat(path.string(), ": one rank's part of a checkpoint: what it holds are pieces of ",
            "tensors"),
        "open the checkpoint's folder, which has the files of all ranks and says what is in "
        "them");
  }
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

namespace {

std::unique_ptr<Interpreter> open_weights(const fs::path& path, const OpenOptions& options) {
  for (const auto& [given, flag] :
       {std::pair{!options.overrides.empty(), "--set"}, {options.nproc > 0, "--nproc"}}) {
    if (!given) continue;
    throw Error(ErrorKind::kUsage,
                cat(flag, ": ", path.string(), " is no plan, but weights at rest"),
                "a plan whose model.weights names them takes --set and --nproc");
  }
  auto view = std::make_unique<StoredView>(stored::open_tensor_source(path));
  return std::make_unique<LocalInterpreter>(Session(std::move(view), options.session));
}

// Before a byte of it is allocated. GPUs' memory is not this machine's.
void require_memory(const planner::Job& job, const OpenOptions& options) {
  if (options.session.force) return;
  if (!runtime::parse_backend(parallel::backend_of(job.plan)).cuda.empty()) return;
  const int64_t ranks = job.layout.mesh.world_size();
  const int64_t wanted =
      planner::inspection_bytes(job.plan, job.model, job.layout, {.first = 0, .count = ranks});
  const auto& ask = options.session.memory;
  const auto shortage = launch::memory_shortage(wanted, ask ? ask() : launch::memory_of_machine());
  if (!shortage) return;
  throw Error(ErrorKind::kPlan, cat(job.plan.file, ": its model ", *shortage),
              "am-plan shows layouts without a model; --force opens it all the same");
}

}  // namespace

std::unique_ptr<Interpreter> open_target(const Target& target, const OpenOptions& options,
                                         Diagnostics& found) {
  if (target.kind == TargetKind::kWeights) return open_weights(target.path, options);
  if (target.kind == TargetKind::kJob) {
    return std::make_unique<AttachedJob>(
        *target.job, target.path, AttachOptions{options.session, options.wait, options.write});
  }
  const auto job = planner::open_job({.file = target.path,
                                      .overrides = options.overrides,
                                      .world_size = options.nproc,
                                      .plugins = options.plugins,
                                      .why_no_cuda = &runtime::why_no_cuda},
                                     found);
  if (!job) return nullptr;
  const int64_t ranks = job->layout.mesh.world_size();
  if (ranks > kMostRanks) {
    throw Error(ErrorKind::kPlan,
                cat(target.path.string(), ": ", ranks, " ranks are more than the ", kMostRanks,
                    " that am-repl starts on one machine"),
                "am-plan shows layouts of any size; --set mesh.dp_size=.. makes this one smaller");
  }
  require_memory(*job, options);
  if (ranks == 1) {
    auto view = std::make_unique<ShardedView>(*job, runtime::World::single());
    return std::make_unique<LocalInterpreter>(Session(std::move(view), options.session));
  }
  WorkerSetup setup;
  setup.plan = target.path;
  setup.overrides = options.overrides;
  setup.plugins = options.plugins;
  setup.session = options.session;
  return std::make_unique<RankProcesses>(options.worker_argv, setup, ranks, options.wait,
                                         options.session.style);
}

}  // namespace am::inspect
