// Approximate layout of a published run, computed from the model's sizes, because the names and
// shapes of its parameters are not known.
#pragma once

#include "am/predict/time/workload.h"

namespace am::predict {

// Parameters of a model besides the matrices of its layers.
struct ModelExtras {
  bool tied = false;
  bool biases = false;             // all matmuls and norms have biases
  double learned_positions = 0.0;  // rows of the table of learned positions; 0: no such table
};

// Sets workload.layout; the workload's model, axes and implementation must be set. `checkpointed`:
// the fraction of layers with activation checkpointing.
void sketch_layout(const ModelExtras& extras, double checkpointed, Workload& workload);

}  // namespace am::predict
