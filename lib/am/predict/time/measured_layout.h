// Approximate layout of a published run, computed from the model's sizes alone, because a table of
// runs (measured_runs.h) does not list the names and shapes of parameters.
#pragma once

#include "am/predict/time/workload.h"

namespace am::predict {

// Properties of a model that determine its parameters besides the matrices of its layers.
struct ModelExtras {
  bool tied = false;               // the head shares the embedding's table
  bool biases = false;             // attention, dense feed-forwards and norms have biases
  double learned_positions = 0.0;  // rows of the table of learned positions; 0: no such table
};

// Sets workload.layout. The model, the number of ranks along each axis, the schedule and the
// implementation of the workload must be set. `checkpointed`: fraction of the layers with
// activation checkpointing.
void sketch_layout(const ModelExtras& extras, double checkpointed, Workload& workload);

}  // namespace am::predict
