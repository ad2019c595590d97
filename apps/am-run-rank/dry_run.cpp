// am-run PLAN --dry-run: runs one step of one rank, without the other ranks, and reports its
// memory.
#include "am/train/dry_run.h"

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/predict/memory/memory.h"
#include "am/runtime/engine_plugin.h"
#include "am/term/bars.h"
#include "am/term/table.h"
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

std::string to_text(const Answer& answer, const term::Style& style) {
  const train::DryRun& run = answer.run;
  const int64_t peak = run.peak.total();
  std::vector<term::Bar> bars;
  for (size_t use = 0; use < tensor::kTensorUses; ++use) {
    const int64_t bytes = run.peak.bytes[use];
    bars.push_back({tensor::kTensorUseNames[use], static_cast<double>(bytes), format_bytes(bytes)});
  }
  term::Table table({{"collective"},
                     {"group"},
                     {"count", term::Align::kRight},
                     {"bytes", term::Align::kRight},
                     {"each", term::Align::kRight}});
  for (const train::CollectiveCount& each : run.collectives) {
    table.add({each.op, each.group, cat(each.count), format_bytes(each.bytes),
               format_bytes(each.bytes / each.count)});
  }
  const double off = 100.0 * (static_cast<double>(answer.predicted_bytes) /
                                  static_cast<double>(std::max<int64_t>(1, peak)) -
                              1.0);
  std::string text =
      cat("rank ", run.rank, " of ", answer.world_size, ": ",
          style.paint(term::Role::kBold, format_bytes(peak)), " of tensors at the peak; ",
          "am-plan predicts ", format_bytes(answer.predicted_bytes), " (", off < 0 ? "" : "+",
          format_fixed(off, 1), " %)\n\n", term::bars(bars, 24, style));
  if (const int64_t host = run.peak.of(tensor::TensorUse::kHost); host > 0) {
    text += cat(format_bytes(host), " more in host memory, by offload_policy\n");
  }
  std::vector<std::string> phases;
  for (const train::PhaseMemory& each : run.phases) {
    phases.push_back(cat(format_bytes(each.live_bytes), " after ", each.phase));
  }
  text += cat("\nalive: ", join(phases, ", "), "\n");
  if (!table.empty()) text += "\n" + table.text(style);
  return text;
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
  if (options.output.json) {
    am_apps::print(to_json(answer));
  } else {
    am_apps::print(to_text(answer, options.output.out));
  }
  return am_apps::kFine;
}

}  // namespace am_run
