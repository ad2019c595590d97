// Predicts the memory of a measured run.
//
//   predicted_bytes(run) / *run.memory_bytes;
#pragma once

#include "am/predict/time/measured_runs.h"

namespace am_calibrate {

// Returns the predicted peak memory in bytes, as run.metric counts it (MemoryMetric). The peak is
// that of the first or last pipeline stage if the run was measured there; otherwise it is the
// largest peak of all stages.
double predicted_bytes(const am::predict::MeasuredRun& run);

}  // namespace am_calibrate
