// Predicts the memory of a measured run, for the rank and by the metric that the run reports.
//
//   predicted_bytes(run) / *run.memory_bytes;
#pragma once

#include "am/predict/time/measured_runs.h"

namespace am_calibrate {

double predicted_bytes(const am::predict::MeasuredRun& run);

}  // namespace am_calibrate
