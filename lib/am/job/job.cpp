#include "am/job/job.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/data/from_plan.h"
#include "am/layout/runs.h"

namespace am::job {

namespace {

bool is_of_training(const Diagnostic& diagnostic) {
  static constexpr std::string_view kTopics[] = {"batch.",     "seq.",        "data.",     "train.",
                                                 "scheduler.", "checkpoint.", "optimizer."};
  return std::any_of(std::begin(kTopics), std::end(kTopics),
                     [&](std::string_view topic) { return starts_with(diagnostic.rule, topic); });
}

}  // namespace

void check_runs(const rules::CheckedFile& file, Diagnostics& found) {
  if (file.plan && file.checked.mesh) {
    const auto* model = file.checked.model ? &*file.checked.model : nullptr;
    layout::refuse(layout::limits_of_plan(*file.plan, model), "is valid", found);
  }
  if (file.checked.model) layout::check_runnable(*file.checked.model, found);
}

std::optional<Job> open_job(const JobFile& from, Diagnostics& found) {
  Diagnostics ruled;
  rules::CheckedFile file =
      rules::check_file(from.file, from.overrides, from.world_size, ruled, from.plugins);
  for (const Diagnostic& diagnostic : ruled.items()) {
    if (from.purpose == Purpose::kInspection && is_of_training(diagnostic)) continue;
    found.add(diagnostic);
  }
  if (!file.plan) return std::nullopt;
  const config::Plan& plan = *file.plan;
  rules::CheckedPlan& checked = file.checked;
  check_runs(file, found);
  if (from.why_no_cuda) layout::check_backend(plan, from.why_no_cuda, found);
  if (!found.ok() || !checked.mesh || !checked.model || !checked.layout) return std::nullopt;
  if (from.purpose == Purpose::kTraining) file.plan->data.eod_token = data::eod_token_id(plan);
  return Job{*std::move(file.plan), *std::move(checked.model), *std::move(checked.layout)};
}

Job make_job(const config::Plan& plan, const model::ModelConfig& model, int64_t world_size) {
  Diagnostics found;
  const auto sizes = layout::resolve_mesh(plan, world_size, found);
  if (sizes) {
    auto layout = layout::build_layout(plan, model, *sizes, found);
    if (layout) return Job{plan, model, *std::move(layout)};
  }
  const Diagnostic& first = found.items().at(0);
  throw Error(ErrorKind::kPlan, first.message, first.help);
}

}  // namespace am::job
