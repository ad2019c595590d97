#include "am/parallel/parallel_model.h"
#include "am/planner/backend_choice.h"
#include "am/planner/runs.h"
#include "am/runtime/engine_plugin.h"

namespace am::parallel {

void check_supported(const config::Plan& plan, Diagnostics& found) {
  planner::refuse(planner::limits_of_plan(plan), "is valid", found);
}

std::string backend_of(const config::Plan& plan) {
  return planner::backend_of(plan, &runtime::why_no_cuda);
}

}  // namespace am::parallel
