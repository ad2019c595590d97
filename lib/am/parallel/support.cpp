#include <optional>
#include <string>

#include "am/base/text.h"
#include "am/parallel/parallel_model.h"
#include "am/planner/runs.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/gpu_driver.h"

namespace am::parallel {

namespace {

std::optional<std::string> asked_backend(const config::Plan& plan) {
  return std::visit([](const auto& config) { return config.backend; }, plan.strategy);
}

}  // namespace

void check_supported(const config::Plan& plan, const mesh::MeshSizes& sizes, Diagnostics& found) {
  planner::refuse(planner::limits_of_plan(plan, sizes), "is valid", found);
}

void check_backend(const config::Plan& plan, Diagnostics& found) {
  const auto asked = asked_backend(plan);
  if (asked == "gloo") return;
  const auto problem = runtime::why_no_cuda();
  if (!problem) return;
  const auto span = plan.span("strategy.backend");
  if (asked) {
    found.error("runtime.backend", span, cat("backend \"", *asked, "\": ", problem->what),
                cat(problem->help, ", or leave the key out"));
  } else if (const int gpus = runtime::visible_gpus().count; gpus > 0) {
    found.warning("runtime.backend", span,
                  cat("this machine has ", gpus, gpus == 1 ? " GPU" : " GPUs",
                      ", but the plan runs on CPUs over gloo: ", problem->what),
                  problem->help);
  }
}

std::string backend_of(const config::Plan& plan) {
  const auto asked = asked_backend(plan);
  return asked ? *asked : runtime::default_backend();
}

}  // namespace am::parallel
