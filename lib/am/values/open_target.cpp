#include "am/values/open_target.h"

#include <string>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/frameworks/open_weights.h"
#include "am/inspect/attached.h"
#include "am/inspect/rank_processes.h"
#include "am/job/job.h"
#include "am/parallel/parallel_model.h"
#include "am/predict/memory/host_memory.h"
#include "am/runtime/engine.h"
#include "am/runtime/engine_plugin.h"
#include "am/stored/tensor_source.h"
#include "am/values/sharded_view.h"
#include "am/values/stored_view.h"

namespace am::values {

namespace fs = std::filesystem;

namespace {

std::unique_ptr<inspect::Interpreter> open_weights(const fs::path& path,
                                                   const OpenOptions& options) {
  for (const auto& [given, flag] :
       {std::pair{!options.overrides.empty(), "--set"}, {options.nproc > 0, "--nproc"}}) {
    if (!given) continue;
    throw Error(
        ErrorKind::kUsage, cat(flag, ": ", path.string(), " is a checkpoint, not a plan"),
        "open a plan whose model.weights names this checkpoint: --set and --nproc need a plan");
  }
  auto view =
      std::make_unique<StoredView>(frameworks::open_tensor_source(path, stored::OnDamage::kReport));
  return std::make_unique<inspect::LocalInterpreter>(session_of(std::move(view), options.session));
}

// Throws Error(kPlan) if the parts of the model that the ranks hold do not fit, together, into the
// memory of this machine. Does nothing with --force, or for ranks on GPUs, because the model is
// then in GPU memory.
void require_memory(const job::Job& job, const OpenOptions& options) {
  if (options.session.force) return;
  if (runtime::parse_backend(parallel::backend_of(job.plan)).serves_gpus()) return;
  const int64_t ranks = job.layout.mesh.world_size();
  const int64_t wanted =
      predict::inspection_bytes(job.plan, job.model, job.layout, {.first = 0, .count = ranks});
  const auto& ask = options.session.memory;
  const auto shortage = launch::memory_shortage(wanted, ask ? ask() : launch::memory_of_machine());
  if (!shortage) return;
  throw Error(
      ErrorKind::kPlan, cat(job.plan.file, ": its model ", *shortage),
      "am-plan shows the plan's layout without its model; --force opens the plan nevertheless");
}

}  // namespace

std::unique_ptr<inspect::Interpreter> open_target(const inspect::Target& target,
                                                  const OpenOptions& options, Diagnostics& found) {
  if (target.kind == inspect::TargetKind::kWeights) return open_weights(target.path, options);
  if (target.kind == inspect::TargetKind::kJob) {
    return std::make_unique<inspect::AttachedJob>(
        *target.job, target.path,
        inspect::AttachOptions{options.session, options.wait, options.write});
  }
  std::vector<config::Override> overrides = options.overrides;
  if (options.nproc > 0) {  // comes before the overrides of --set, so that --set takes precedence
    overrides.insert(overrides.begin(), {cat("mesh.world_size=", options.nproc)});
  }
  const auto job = job::open_job({.file = target.path,
                                  .overrides = overrides,
                                  .plugins = options.plugins,
                                  .why_no_cuda = &runtime::why_no_cuda,
                                  .purpose = job::Purpose::kInspection},
                                 found);
  if (!job) return nullptr;
  const int64_t ranks = job->layout.mesh.world_size();
  if (ranks > kMostRanks) {
    throw Error(ErrorKind::kPlan,
                cat(target.path.string(), ": ", ranks, " ranks are more than the ", kMostRanks,
                    " that am-repl starts on one machine"),
                "open the plan with fewer ranks: --nproc N, and --set for the sizes in [mesh]; "
                "am-plan shows layouts of any size");
  }
  require_memory(*job, options);
  if (ranks == 1) {
    auto view = std::make_unique<ShardedView>(*job, runtime::World::single());
    return std::make_unique<inspect::LocalInterpreter>(
        session_of(std::move(view), options.session));
  }
  inspect::WorkerSetup setup;
  setup.plan = target.path;
  setup.overrides = overrides;
  setup.plugins = options.plugins;
  setup.session = options.session;
  return std::make_unique<inspect::RankProcesses>(options.worker_argv, setup, ranks, options.wait,
                                                  options.session.style);
}

}  // namespace am::values
