// Predicted step time of a plan, with an interval and the nearest measured runs.
//
//   const auto prediction = predict_step(plan, config, layout, 5, found);
//   prediction->time.seconds; prediction->interval->low; prediction->nearest[0].run.source;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/cluster/hardware.h"
#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/predict/memory/peak_memory.h"
#include "am/predict/time/constants.h"
#include "am/predict/time/measured_runs.h"
#include "am/predict/time/step_time.h"

namespace am::predict {

// GPU and constants named in `[cluster]`; an H100 if no GPU is named.
struct Assumptions {
  cluster::Gpu gpu;
  bool gpu_is_assumed = false;
  Calibration calibration;
};
// Adds "cluster.*" diagnostics; returns nothing if there is an error.
std::optional<Assumptions> assumptions_of(const config::Plan& plan, Diagnostics& found);

struct NearestRun {
  MeasuredRun run;
  double distance = 0.0;   // 0: an equal job
  double predicted = 0.0;  // predicted seconds, by the same constants
};

// Interval of seconds that contains the measured time of nine runs in ten.
struct Interval {
  double low = 0.0;
  double high = 0.0;
};

struct Prediction {
  Assumptions assumptions;
  Workload workload;
  StepTime time;
  // Absent if no run of this kind of model on this GPU was measured: the prediction's error is then
  // unknown.
  std::optional<Interval> interval;
  std::string basis;  // a sentence about missing measurements; empty if none are missing
  std::vector<NearestRun> nearest;
  double tokens_per_second_per_gpu = 0.0;
  double flops_per_token = 0.0;  // model::train_flops_per_token
  double mfu = 0.0;              // relative to the format's peak
};

// Returns the prediction with its `how_many` nearest runs; 0 skips reading the runs and leaves the
// interval empty. Adds "predict.range" for sizes whose results cannot be represented.
std::optional<Prediction> predict_step(const config::Plan& plan, const model::ModelConfig& config,
                                       const layout::Layout& layout, int how_many,
                                       Diagnostics& found);

// Distance of two jobs: differences of the logarithms of their sizes, and of their kinds.
double distance(const Workload& a, const cluster::Gpu& gpu_a, const Workload& b,
                const cluster::Gpu& gpu_b);

// Peak FLOP/s of the format in which matmuls run.
double peak_flops(const Workload& workload, const cluster::Gpu& gpu);
// Returns the format of that peak: if the GPU has no units for the workload's format, a wider one.
ComputeFormat peak_format(const Workload& workload, const cluster::Gpu& gpu);

}  // namespace am::predict
