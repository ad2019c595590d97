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

// Returns the dtypes of a plan. The default of all dtypes is model.dtype, with these exceptions:
//
//   fsdp2          computes in mp_policy.param_dtype, if set; reduces in mp_policy.reduce_dtype
//                  (default: the compute dtype)
//   megatron_fsdp  can store parameters and reduce gradients in float32
//   megatron       computes in params_dtype; the optimizer's copy is float32, or float64 if
//                  params_dtype is float64; reduces in float32 or params_dtype
//
// Under fsdp2 and ddp, `products` is autocast_dtype, if set.
StepPrecision resolve_precision(const config::Plan& plan);

// Returns autocast's dtype, or an empty optional without autocast.
const std::optional<std::string>& autocast_dtype(const config::DistributedConfig& strategy);

// Returns the bytes per element of "float64", "float32", "bfloat16" or "float16". Throws
// Error(kInternal) for other names.
int64_t dtype_size(std::string_view dtype);

// Whether training needs a loss scale: compute, matmuls, reduction or output logits use float16, in
// which most gradients would underflow to zero.
bool scales_loss(const config::Plan& plan);

}  // namespace am::layout
