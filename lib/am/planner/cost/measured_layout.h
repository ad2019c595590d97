// The layout of a published run, as far as it is known: of its model there are sizes, and no names
// of tensors to cut.
#pragma once

#include "am/planner/cost/workload.h"

namespace am::planner {

// What a model has besides its layers' matrices.
struct ModelExtras {
  bool tied = false;
  bool biases = false;             // of all products and norms
  double learned_positions = 0.0;  // rows of their table
};

// Fills the layout of a job whose model, axes and implementation are there. `checkpointed`: the
// share of its layers that its recomputation concerns.
void sketch_layout(const ModelExtras& extras, double checkpointed, Workload& workload);

}  // namespace am::planner
