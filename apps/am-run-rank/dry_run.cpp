// am-run PLAN --dry-run: runs one step of one rank, without the other ranks, and reports the rank's
// memory and collectives.
#include "am/train/dry_run.h"

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/predict/memory/memory.h"
#include "am/runtime/engine_plugin.h"
#include "job/dry_run_report.h"
#include "job/plan_file.h"
#include "modes.h"

namespace am_run {

namespace {

using namespace am;

struct Answer {
  train::DryRun run;
  int64_t world_size = 0;
  int64_t predicted_bytes = 0;  // peak memory that `am-plan memory` predicts for this rank
};

Json to_json(const Answer& answer) {
  const train::DryRun& run = answer.run;
  Json components = Json::object();
  for (size_t use = 0; use < tensor::kTensorUses; ++use) {
    components[tensor::kTensorUseNames[use]] = run.peak.bytes[use];
  }
  Json collectives = Json::array();
  for (const train::CollectiveCount& each : run.collectives) {
    collectives.push_back(
        {{"op", each.op}, {"group", each.group}, {"bytes", each.bytes}, {"count", each.count}});
  }
  Json phases = Json::array();
  for (const train::PhaseMemory& each : run.phases) {
    phases.push_back({{"phase", each.phase}, {"live_bytes", each.live_bytes}});
  }
  Json json = Json::object();
  json["ok"] = true;
  json["rank"] = run.rank;
  json["world_size"] = answer.world_size;
  json["peak_bytes"] = run.peak.total();
  json["predicted_bytes"] = answer.predicted_bytes;
  json["components"] = std::move(components);
  json["host_bytes"] = run.peak.of(tensor::TensorUse::kHost);
  json["phases"] = std::move(phases);
  json["collectives"] = std::move(collectives);
  json["seconds"] = run.seconds;
  return json;
}

}  // namespace

int run_dry(const Options& options) {
  Diagnostics found;
  const auto job = open_job(options, 0, &runtime::why_no_cuda, found);
  found.sort();
  am_apps::print_diagnostics(found, options.output);
  if (!job) {
    if (options.output.json) am_apps::print(am_apps::failure(found));
    return am_apps::kInvalid;
  }
  Answer answer;
  answer.world_size = job->layout.mesh.world_size();
  if (options.rank >= answer.world_size) {
    throw Error(ErrorKind::kUsage,
                cat("--rank ", options.rank, ": the plan has ranks 0 to ", answer.world_size - 1));
  }
  answer.run = train::dry_run(*job, options.rank);
  answer.predicted_bytes =
      predict::estimate_memory(job->plan, job->model, job->layout, options.rank).components.total();
  const Json report = to_json(answer);
  if (options.output.json) {
    am_apps::print(report);
  } else {
    am_apps::print(dry_run_text(report, options.output.out));
  }
  return am_apps::kFine;
}

}  // namespace am_run
