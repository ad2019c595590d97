#include "am/layout/backend_choice.h"

#include <variant>

#include "am/base/text.h"
#include "am/config/backend.h"

namespace am::layout {

std::optional<std::string> asked_backend(const config::Plan& plan) {
  return std::visit([](const auto& config) { return config.backend; }, plan.strategy);
}

std::string backend_of(const config::Plan& plan, const CudaProbe& why_no_cuda) {
  if (const auto asked = asked_backend(plan)) return *asked;
  return why_no_cuda() ? "gloo" : "nccl";
}

void check_backend(const config::Plan& plan, const CudaProbe& why_no_cuda, Diagnostics& found) {
  const auto asked = asked_backend(plan);
  if (config::computes_on_host(asked)) return;
  const auto problem = why_no_cuda();
  if (!problem) return;
  const auto span = plan.span("strategy.backend");
  if (asked) {
    found.error("runtime.backend", span, cat("backend \"", *asked, "\": ", problem->what),
                cat(problem->help, ", or leave the key out"));
  } else if (const int gpus = launch::visible_gpus().count; gpus > 0) {
    found.warning("runtime.backend", span,
                  cat("this machine has ", gpus, gpus == 1 ? " GPU" : " GPUs",
                      ", but the plan runs on CPUs over gloo: ", problem->what),
                  problem->help);
  }
}

}  // namespace am::layout
