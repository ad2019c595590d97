// Predicted step time of a plan, with an interval for the real time and the measured runs that
// resemble the plan most.
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

// Returns the GPU that the plan's `[cluster]` names, or h100-sxm if the plan names no GPU. Returns
// nullopt if the GPU cannot be read, after adding a diagnostic, for example "cluster.gpu".
std::optional<cluster::Gpu> gpu_of(const config::Plan& plan, Diagnostics& found);

// The GPU of gpu_of(), and the calibration that the plan's `[cluster]` names; by default the
// built-in calibration.
struct Assumptions {
  cluster::Gpu gpu;
  bool gpu_is_assumed = false;
  Calibration calibration;
};
// Returns nullopt if the GPU or the calibration cannot be read, after adding diagnostics, for
// example "cluster.calibration".
std::optional<Assumptions> assumptions_of(const config::Plan& plan, Diagnostics& found);

struct NearestRun {
  MeasuredRun run;
  double distance = 0.0;   // distance() from the plan's job; 0: an equal job
  double predicted = 0.0;  // seconds per step that the plan's constants predict for this run
};

// Interval of the step time in seconds, as wide as the prediction errors of nine held-out runs in
// ten. These are runs of the plan's kinds (ErrorScale) or, if the plan's own calibration file has
// factors of the GPU, all runs.
struct Interval {
  double low = 0.0;
  double high = 0.0;
};

struct Prediction {
  Assumptions assumptions;
  Workload workload;
  StepTime time;
  // Absent if no runs were read. Also absent if no run on a GPU of this architecture was measured
  // and the plan's calibration has no factors of this GPU: the error is then unknown.
  std::optional<Interval> interval;
  std::string basis;  // a sentence about missing measurements; empty if none are missing
  std::vector<NearestRun> nearest;
  double tokens_per_second_per_gpu = 0.0;
  double flops_per_token = 0.0;  // result of model::train_flops_per_token
  double mfu = 0.0;              // model FLOPs utilization, relative to peak_flops()
};

// Returns the prediction with up to `how_many` nearest runs, at most one per MeasuredRun::group. If
// `how_many` is 0, no runs are read and the interval is absent. Returns nullopt if assumptions_of()
// returns nullopt. Also returns nullopt, after adding a diagnostic "predict.range", if the step's
// seconds or bytes are too large to represent.
std::optional<Prediction> predict_step(const config::Plan& plan, const model::ModelConfig& config,
                                       const layout::Layout& layout, int how_many,
                                       Diagnostics& found);

// Returns how different two jobs are: the weighted sum of the differences of the logarithms of
// their sizes, plus a constant for each property that differs (GPU, format, sharding,
// recomputation, implementation).
double distance(const Workload& a, const cluster::Gpu& gpu_a, const Workload& b,
                const cluster::Gpu& gpu_b);

// Returns the GPU's peak FLOP/s for matmuls in the format peak_format(format, gpu).
double peak_flops(ComputeFormat format, const cluster::Gpu& gpu);
// Returns `format` if the GPU has units for this format, otherwise bf16, or fp16 on a GPU without
// bf16.
ComputeFormat peak_format(ComputeFormat format, const cluster::Gpu& gpu);

}  // namespace am::predict
