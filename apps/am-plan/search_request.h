// Options of `am-plan search`, and their conversion to a SearchRequest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/predict/search/search.h"
#include "options.h"

namespace am_plan {

struct SearchOptions {
  std::string model;
  // 0: the plan's world size or, with min_gpus, the smallest number on which a layout fits.
  int64_t gpus = 0;
  bool min_gpus = false;
  std::string tp, pp, cp, ep;     // lists of sizes, for example "1,2,4"; empty: all
  std::string precision;          // list of precisions, for example "bf16,mxfp8"; empty: the plan's
  std::string headroom;           // fraction of a GPU's memory that stays free; empty: 0
  std::string gpu;                // empty: the plan's, or h100-sxm
  int64_t seq_len = 0;            // tokens per sequence; 0: the plan's, or default_seq_len()
  int64_t global_batch_size = 0;  // sequences per step; 0: the plan's, or default_batch_size()
  int64_t top = 10;
  std::string strategy;  // empty: the plan's, or the implementation's
  // Empty: megatron if `strategy` is megatron and the plan's strategy is not; otherwise the plan's
  // implementation, or automesh without a plan.
  std::string implementation;
  std::string fixed;  // keys of the plan that layouts keep
  std::string calibration;
  std::string write;
  bool runnable = false;
  std::string goal = "step";
  int64_t hours_between_failures = 0;
  int64_t storage_gb_per_s = 0;
};

// Returns the request that the options describe. If `plan` names a plan file, options that are not
// given get the values in this file. Returns nullopt, after adding errors to `found`, if the plan,
// the model's config or the GPU's file is invalid. Throws Error(kUsage) if options are illegal,
// contradict each other or are missing.
std::optional<am::predict::SearchRequest> request_of(const SearchOptions& options,
                                                     const PlanOptions& plan,
                                                     am::Diagnostics& found);

}  // namespace am_plan
