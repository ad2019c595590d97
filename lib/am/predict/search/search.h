// Searches for the best layouts of a model on a number of GPUs. The search enumerates combinations
// of mesh sizes, checkpointing mode, micro-batch size and pipeline schedule. It drops the
// combinations that break a rule or do not fit into memory, counts them by reason, and ranks the
// rest.
//
//   SearchRequest request{.model = config, .model_path = "...", .gpus = 64, .gpu = gpu};
//   const SearchResult result = search(request, calibration);
//   result.layouts[0].plan; result.layouts[0].step_seconds;
//
// Note [How search is fast]: a candidate (one of these combinations) is first checked by the rules.
// Formulas then compute the candidate's memory and a lower bound of its step time from a layout
// summary (layout_summary.h), within microseconds. After that, candidates become plans in the order
// of this lower bound. For each plan the search simulates the pipeline's schedule and the memory of
// a step (memory.h), which yields the figures that `am-plan memory` and `am-plan cost` print. The
// simulations end when the search has found the wanted number of layouts and the next lower bound
// is above their times, because no remaining candidate can then be faster.
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
  std::string model_path;  // value of model.path in the found plans
  std::string model_name;  // the model's name, if it was given by name; empty otherwise
  int64_t gpus = 1;
  cluster::Gpu gpu;
  std::string gpu_name;  // value of cluster.gpu in the found plans
  int64_t seq_len = 4096;
  int64_t global_batch_size = 0;   // sequences per step; 0: default_batch_size() chooses
  std::string strategy = "fsdp2";  // name of a strategy, or "all"
  const cluster::Implementation* implementation = &cluster::automesh_implementation();
  std::string calibration;  // value of cluster.calibration in the found plans
  int64_t top = 10;         // number of layouts to return
  bool runnable = false;    // return only layouts that am-run supports (layout/runs.h)
  // Sizes of axes to try; empty: no restriction.
  std::vector<int64_t> tp_sizes = {}, pp_sizes = {}, cp_sizes = {}, ep_sizes = {};
  // Recipes of strategy.fp8 to try; kNone: matmuls without FP8. Empty: the base plan's recipe, or
  // kNone without a base plan.
  std::vector<config::Fp8Recipe> recipes = {};
  // Plan on which the found plans are based. The members above replace its model path, GPU,
  // sequence length and batch. The search replaces the mesh, the schedule, and those options of the
  // strategy that candidates vary. The found plans keep all other keys, for example the optimizer.
  std::optional<config::Plan> base = {};
  // Properties that all candidates copy from `base` instead of varying them (am-plan search --fix).
  struct Held {
    bool dp_replicate = false, micro_batch = false, schedule = false;
    bool checkpointing = false, sequence_parallel = false;
  };
  Held held = {};
  // Values of [cluster] hours_between_failures and storage_gb_per_s in the found plans. If both are
  // more than 0, layouts are ranked by their time including the cost of failures (time/goodput.h),
  // and each found plan gets its best checkpoint.every.
  double hours_between_failures = 0.0;
  double storage_gb_per_s = 0.0;

  double headroom = 0.0;  // fraction of gpu.memory_bytes that stays free

  // Whether layouts are ranked by their time including the cost of failures.
  bool counts_failures() const { return hours_between_failures > 0.0 && storage_gb_per_s > 0.0; }
  // Returns the GPU with the memory that layouts may use.
  cluster::Gpu usable_gpu() const;
  // Returns the number of sequences per step: global_batch_size if it is set, otherwise
  // default_batch_size().
  int64_t batch() const;
};

// Returns the default number of sequences per step, at least 1. The sequences have about 4 Mi
// tokens together, or 1,024 tokens per GPU if that is more. A number larger than `gpus` is rounded
// up to a multiple of `gpus`.
int64_t default_batch_size(int64_t gpus, int64_t seq_len);

// Returns the default number of tokens per sequence: 4,096, or the model's maximum if it is less.
int64_t default_seq_len(const model::ModelConfig& model);

struct FoundLayout {
  config::Plan plan;
  int64_t peak_bytes = 0;
  double step_seconds = 0;
  double mfu = 0;
  double tokens_per_second_per_gpu = 0;
  StepTime time;
  std::optional<double> goodput;  // expected goodput; absent if failures are not modelled
  std::string why;                // main reason why this layout is faster than the next in the list
  bool pareto = false;            // the layout is in SearchResult::pareto
  bool runs = false;              // this version of am-run supports the layout
};

struct SearchResult {
  // The found layouts, fastest first. Times include the cost of failures if the request has
  // hours_between_failures and storage_gb_per_s.
  std::vector<FoundLayout> layouts;
  // Pareto front of step time and memory. The layout with the least memory is first. Each following
  // layout is faster than the one before it and needs at least 5 % more memory.
  std::vector<FoundLayout> pareto;
  int64_t batch = 0;       // sequences per step
  int64_t considered = 0;  // number of candidates
  // Number of candidates that fit by formula, minus those whose simulated memory does not fit.
  int64_t feasible = 0;
  // Smallest predicted peak of the candidates that do not fit, in bytes; 0 if all fit.
  int64_t smallest_misfit = 0;
  std::map<std::string, int64_t, std::less<>> dropped;  // reason -> number of dropped candidates
  double seconds = 0;                                   // duration of the search
};

// Runs the search. The result contains no layouts if no candidate fits.
SearchResult search(const SearchRequest& request, const Calibration& calibration);

}  // namespace am::predict
