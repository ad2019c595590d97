#include "am/layout/backend_choice.h"
#include "am/layout/runs.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/engine_plugin.h"

namespace am::parallel {

void check_supported(const config::Plan& plan, Diagnostics& found) {
  layout::refuse(layout::limits_of_plan(plan), "is valid", found);
}

std::string backend_of(const config::Plan& plan) {
  return layout::backend_of(plan, &runtime::why_no_cuda);
}

}  // namespace am::parallel
