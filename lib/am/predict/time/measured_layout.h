// Layout of a published run, as far as it is known: the model's sizes without tensor names.
#pragma once

#include "am/predict/time/workload.h"

namespace am::predict {

// Parameters of a model besides the matrices of its layers.
struct ModelExtras {
  bool tied = false;
  bool biases = false;             // all matmuls and norms have biases
  double learned_positions = 0.0;  // rows of the table
};

// Fills the layout of a workload whose model, axes and implementation are set. `checkpointed`: the
// fraction of layers with recomputation.
void sketch_layout(const ModelExtras& extras, double checkpointed, Workload& workload);

}  // namespace am::predict
