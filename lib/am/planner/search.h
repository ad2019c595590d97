// The best layouts of a number of GPUs for a model: every combination of axes, checkpointing,
// micro-batch and schedule is sized up; what does not fit is counted by reason, the rest is ranked.
//
//   SearchRequest request{.model = config, .model_path = "...", .gpus = 64, .gpu = gpu};
//   const SearchResult result = search(request, calibration);
//   result.layouts[0].plan; result.layouts[0].step_seconds;
//
// Note [How search is fast]: a candidate is asked the rules that need no layout, and becomes a
// sketch of one (layout_sketch.h), from which memory and a time that its schedule cannot undercut
// follow in microseconds. From the least time on, candidates become plans: their schedule is
// simulated and their memory is walked through, so that they have the figures that `am-plan memory`
// and `am-plan cost` print. It ends where the next least time is above what has been found: nothing
// that is left can be faster.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/planner/cost/constants.h"
#include "am/planner/cost/hardware.h"
#include "am/planner/cost/implementation.h"
#include "am/planner/cost/step_time.h"

namespace am::planner {

struct SearchRequest {
  model::ModelConfig model;
  std::string model_path;  // as the found plans write it
  int64_t gpus = 1;
  Gpu gpu;
  std::string gpu_name;  // as the found plans write it
  int64_t seq_len = 4096;
  int64_t global_batch_size = 0;   // sequences; 0: default_batch_size
  std::string strategy = "fsdp2";  // a strategy's name, or "all"
  const Implementation* implementation = &automesh_implementation();
  std::string calibration;  // as the found plans write it
  int64_t top = 10;
  bool runnable = false;  // only what am-run runs (runs.h)

  // Sequences of a step: as asked for, or default_batch_size.
  int64_t batch() const;
};

// Sequences of a step where nobody says: 4 Mi tokens, or 1,024 tokens a GPU when that is more; a
// multiple of the GPUs where there are as many.
int64_t default_batch_size(int64_t gpus, int64_t seq_len);

struct FoundLayout {
  config::Plan plan;
  int64_t peak_bytes = 0;
  double step_seconds = 0;
  double mfu = 0;
  double tokens_per_second_per_gpu = 0;
  StepTime time;
  std::string why;      // it beats the next one
  bool pareto = false;  // no other found layout is both faster and smaller
  bool runs = false;    // this version of am-run runs it
};

struct SearchResult {
  std::vector<FoundLayout> layouts;  // fastest first
  // By memory, the smallest first: each is faster than those before.
  std::vector<FoundLayout> pareto;
  int64_t batch = 0;  // sequences of a step
  int64_t considered = 0;
  int64_t feasible = 0;  // by formula, without those of which a walk has shown that they do not fit
  // Peak of the smallest layout among those that do not fit; 0: there is none.
  int64_t smallest_misfit = 0;
  std::map<std::string, int64_t, std::less<>> dropped;  // by reason
  double seconds = 0;
};

SearchResult search(const SearchRequest& request, const Calibration& calibration);

}  // namespace am::planner
