// Searches for the best layouts of a model on a number of GPUs: enumerates every combination of
// axes, checkpointing, micro-batch and schedule, counts those that do not fit by reason, and ranks
// the rest.
//
//   SearchRequest request{.model = config, .model_path = "...", .gpus = 64, .gpu = gpu};
//   const SearchResult result = search(request, calibration);
//   result.layouts[0].plan; result.layouts[0].step_seconds;
//
// Note [How search is fast]: a candidate is first checked by the rules that need no layout, and
// becomes a layout summary (layout_summary.h), from which its memory and a lower bound of its step
// time follow in microseconds. Candidates then become plans in the order of this bound: their
// schedule is simulated and their memory is walked through, which gives the figures that `am-plan
// memory` and `am-plan cost` print. The search ends when the next lower bound is above the times
// found: no remaining candidate can be faster.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "am/cluster/hardware.h"
#include "am/cluster/implementation.h"
#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/predict/time/constants.h"
#include "am/predict/time/step_time.h"

namespace am::predict {

struct SearchRequest {
  model::ModelConfig model;
  std::string model_path;  // as written in the found plans
  int64_t gpus = 1;
  cluster::Gpu gpu;
  std::string gpu_name;  // as written in the found plans
  int64_t seq_len = 4096;
  int64_t global_batch_size = 0;   // sequences; 0: default_batch_size
  std::string strategy = "fsdp2";  // name of a strategy, or "all"
  const cluster::Implementation* implementation = &cluster::automesh_implementation();
  std::string calibration;  // as written in the found plans
  int64_t top = 10;
  bool runnable = false;  // only layouts that am-run supports (runs.h)
  // Rates of failures and of the storage, as written in the found plans. If both rates are more
  // than 0, layouts are ranked by their time including the cost of failures (cost/goodput.h), and
  // get the best checkpoint.every.
  double hours_between_failures = 0.0;
  double storage_gb_per_s = 0.0;

  // Sequences per step: global_batch_size, or default_batch_size.
  int64_t batch() const;
};

// Returns the default number of sequences per step: 4 Mi tokens, or 1,024 tokens per GPU if that is
// more; rounded up to a multiple of the GPUs unless there are fewer sequences than GPUs.
int64_t default_batch_size(int64_t gpus, int64_t seq_len);

struct FoundLayout {
  config::Plan plan;
  int64_t peak_bytes = 0;
  double step_seconds = 0;
  double mfu = 0;
  double tokens_per_second_per_gpu = 0;
  StepTime time;
  std::optional<double> goodput;  // if the request states failures
  std::string why;                // main reason why it is faster than the next one
  bool pareto = false;            // no other found layout is both faster and smaller
  bool runs = false;              // this version of am-run supports it
};

struct SearchResult {
  std::vector<FoundLayout>
      layouts;  // fastest first, including the cost of failures if the request states both rates
  // Pareto front, smallest memory first; each is faster than those before it.
  std::vector<FoundLayout> pareto;
  int64_t batch = 0;  // sequences per step
  int64_t considered = 0;
  // Candidates that fit by formula, minus those that do not fit by the exact computation.
  int64_t feasible = 0;
  // Peak of the smallest layout that does not fit; 0 if all fit.
  int64_t smallest_misfit = 0;
  std::map<std::string, int64_t, std::less<>> dropped;  // number of dropped candidates by reason
  double seconds = 0;
};

SearchResult search(const SearchRequest& request, const Calibration& calibration);

}  // namespace am::predict
