#include "am/nn/runnable.h"

#include "am/planner/runs.h"

namespace am::nn {

void check_runnable(const model::ModelConfig& config, Diagnostics& found) {
  planner::refuse(planner::limits_of_model(config), "can be planned", found);
}

}  // namespace am::nn
