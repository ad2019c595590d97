// Dtypes of a training step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "am/config/plan.h"

namespace am::layout {

struct StepPrecision {
  std::string storage;   // dtype of stored parameters, gradients and optimizer states
  std::string compute;   // dtype of gathered parameters and of activations
  std::string products;  // dtype of matmuls and attention: autocast's, otherwise `compute`
  std::string reduce;    // dtype in which gradients are reduced
};

// Returns the dtypes of a plan. fsdp2 computes in its policy's param_dtype (default: the plan's
// dtype) and reduces in reduce_dtype (default: the compute dtype). ddp and megatron_fsdp compute in
// the plan's dtype; megatron_fsdp can store parameters and reduce gradients in float32. megatron
// computes in params_dtype, stores a float32 copy, and reduces in float32 or params_dtype.
// `products` of fsdp2 and ddp is autocast_dtype, if set.
StepPrecision resolve_precision(const config::Plan& plan);

// Returns autocast's dtype, or an empty optional without autocast.
const std::optional<std::string>& autocast_dtype(const config::DistributedConfig& strategy);

// Returns the bytes per element of "float64", "float32", "bfloat16" or "float16".
int64_t dtype_size(std::string_view dtype);

// Whether training needs a loss scale: compute, matmuls, reduction or output logits use float16, in
// which most gradients would underflow to zero.
bool scales_loss(const config::Plan& plan);

}  // namespace am::layout
