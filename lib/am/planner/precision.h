// The dtypes of a step: what is stored, what is computed with, what is reduced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "am/config/plan.h"

namespace am::planner {

struct StepPrecision {
  std::string storage;   // parameters, gradients and optimizer states
  std::string compute;   // gathered parameters and activations
  std::string products;  // matrix products and attention: autocast's dtype, or as computed
  std::string reduce;    // gradient reduction
};

// fsdp2: the mixed-precision policy over the plan's dtype. The others compute with what they store;
// megatron_fsdp reduces in float32 when asked to. Products of fsdp2 and ddp follow autocast_dtype.
StepPrecision resolve_precision(const config::Plan& plan);

// The dtype that the forward runs under autocast in; null: no autocast.
const std::optional<std::string>& autocast_dtype(const config::DistributedConfig& strategy);

// Bytes of one element: of "float64", "float32", "bfloat16" or "float16".
int64_t dtype_size(std::string_view dtype);

// Whether gradients pass through float16, where most would be zero without a loss scale: something
// computes, reduces or hands out logits in it.
bool scales_loss(const config::Plan& plan);

}  // namespace am::planner
