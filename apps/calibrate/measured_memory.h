// What the memory model says of a measured run: its rank, its metric.
//
//   predicted_bytes(run) / *run.memory_bytes;
#pragma once

#include "am/planner/cost/measured_runs.h"

namespace am_calibrate {

double predicted_bytes(const am::planner::MeasuredRun& run);

}  // namespace am_calibrate
