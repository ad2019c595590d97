// The predicted step of a plan, with an interval and the measured runs that are nearest to it.
//
//   const auto prediction = predict(plan, config, layout, 5, found);
//   prediction->time.seconds; prediction->low; prediction->nearest[0].run.source;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/planner/cost/constants.h"
#include "am/planner/cost/hardware.h"
#include "am/planner/cost/measured_runs.h"
#include "am/planner/cost/peak_memory.h"
#include "am/planner/cost/step_time.h"

namespace am::planner {

// The machine and the constants that `[cluster]` names; an H100 where it names no GPU.
struct Assumptions {
  Gpu gpu;
  bool gpu_is_assumed = false;
  Calibration calibration;
};
// Adds "cluster.*" diagnostics; nothing when there is an error.
std::optional<Assumptions> assumptions_of(const config::Plan& plan, Diagnostics& found);

struct NearestRun {
  MeasuredRun run;
  double distance = 0.0;   // 0: the same job
  double predicted = 0.0;  // seconds, by the same constants
};

// Seconds; nine runs in ten lie between.
struct Interval {
  double low = 0.0;
  double high = 0.0;
};

struct Prediction {
  Assumptions assumptions;
  Workload workload;
  StepTime time;
  // Nothing where no run on such a GPU, of such a kind of model, was measured: how far the
  // prediction is off is then not known.
  std::optional<Interval> interval;
  std::string basis;  // a sentence on what was not measured; empty: runs of this very kind were
  std::vector<NearestRun> nearest;
  double tokens_per_second_per_gpu = 0.0;
  double flops_per_token = 0.0;  // model::train_flops_per_token
  double mfu = 0.0;              // of the format's peak
};

// `how_many` nearest runs; 0 saves reading them, and there is no interval. Adds "predict.range" for
// sizes that no figure can hold.
std::optional<Prediction> predict(const config::Plan& plan, const model::ModelConfig& config,
                                  const Layout& layout, int how_many, Diagnostics& found);

// How far two jobs are apart: differences of the logarithms of their sizes, and of their kinds.
double distance(const Workload& a, const Gpu& gpu_a, const Workload& b, const Gpu& gpu_b);

// The peak of the format that matrix products use.
double peak_flops(const Workload& workload, const Gpu& gpu);
// The format whose peak that is: a GPU without units for the workload's own computes in a wider
// one.
ComputeFormat peak_format(const Workload& workload, const Gpu& gpu);

}  // namespace am::planner
