// Kernels of the CUDA plugin for operators that ATen computes in several passes.
//
//   if (const GpuKernels* kernels = gpu_kernels(x); kernels != nullptr && kernels->gated(y, g, u, act)) return y;
//   ...                                                     // ATen's operators
//
// The plugin registers the kernels when it is loaded, and starts to compile them when a rank opens
// its GPU (am/cuda/compiled_kernels.h). The first use of a kernel waits until it is compiled. Each
// function returns false, with nothing written, if it does not support its arguments (alignment,
// sizes), or if kernels cannot be compiled on this machine. AM_GPU_KERNELS=0 in the environment
// turns the kernels off.
//
// Legend: N tokens, v this rank's slice of the vocabulary, D hidden, I columns of a dropout's
// input, B batch, T sequence, H query heads, G key/value heads, K head_dim, R rows of experts'
// outputs, k per token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "am/mesh/shard.h"
#include "am/model/spec.h"

namespace am::tensor {

// Describes random values that a stream of base/random.h generates: normal with standard deviation
// `scale`, or uniform in [-scale, scale) if `normal` is false.
struct Draws {
  uint64_t key = 0, stream = 0;  // key and stream number of a NormalStream or UniformStream
  bool normal = true;
  float scale = 1.0F;
};

struct GpuKernels {
  // Writes the sums of nn::fused::LogitSums in float32, for each row of logits_Nv: the maximum, the
  // sum of e^(logit - maximum), and the logit at the label, or 0 if the label is not in
  // [first, first + v).
  bool (*logit_sums)(const at::Tensor& maximum_N, const at::Tensor& exponentials_N,
                     const at::Tensor& label_N, const at::Tensor& logits_Nv,
                     const at::Tensor& labels_N, int64_t first);
  // Writes the result of nn::fused::cross_entropy_gradient without LossTerms to out_Nv, which may
  // be logits_Nv. sums_N is the logarithm of each row's sum of exponentials over the whole
  // vocabulary. sums_N and the scalar `scale` are float32.
  bool (*cross_entropy_gradient)(const at::Tensor& out_Nv, const at::Tensor& logits_Nv,
                                 const at::Tensor& sums_N, const at::Tensor& labels_N,
                                 int64_t first, int64_t ignored, const at::Tensor& scale);
  // gated() writes y = activation(gate) * up; gated_gradients() writes the gradients of gate and
  // up, from the gradient of y. All tensors are dense and have one shape.
  bool (*gated)(const at::Tensor& y, const at::Tensor& gate, const at::Tensor& up,
                model::Activation activation);
  bool (*gated_gradients)(const at::Tensor& of_gate, const at::Tensor& of_up,
                          const at::Tensor& gradient, const at::Tensor& gate, const at::Tensor& up,
                          model::Activation activation);
  // Writes the RMSNorm of x [.., D] to y, rounded as by nn::fused::rms_norm, and the reciprocal of
  // each row's root mean square to `inverse`, in float32. If `residual` is defined, writes x +
  // residual to `sum`, and normalises this sum instead of x. Tensors are dense; x, residual and
  // weight_D have one dtype.
  bool (*rms_norm)(const at::Tensor& y, const at::Tensor& inverse, const at::Tensor& sum,
                   const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight_D,
                   double eps, model::NormKind kind);
  // Writes the gradient of x to `of_x` and, if `of_weight_D` is defined, the gradient of weight_D
  // to `of_weight_D`. x is the tensor that was normalised: rms_norm()'s `sum` if there was a
  // residual. `of_y` is the gradient of y. If `of_sum`, the gradient of `sum`, is defined, adds it
  // to `of_x`.
  bool (*rms_norm_gradients)(const at::Tensor& of_x, const at::Tensor& of_weight_D,
                             const at::Tensor& of_y, const at::Tensor& of_sum, const at::Tensor& x,
                             const at::Tensor& inverse, const at::Tensor& weight_D,
                             model::NormKind kind);
  // Writes x, rotated as by nn::fused::rotate, to y; with `back`, applies the inverse rotation. The
  // last dim of x_BHTK must have stride 1, and y_BTHK must be dense. If more_x_BGTK is defined,
  // rotates it to more_y_BTGK in the same launch; only its number of heads may differ from x's.
  // `cos` and `sin` are the tables of nn::fused::rotate.
  bool (*rotate)(const at::Tensor& y_BTHK, const at::Tensor& x_BHTK, const at::Tensor& more_y_BTGK,
                 const at::Tensor& more_x_BGTK, const at::Tensor& cos, const at::Tensor& sin,
                 bool back);
  // Writes the result of nn::fused::dropped to out_NI, which may be x_NI. rows_N: each row's number
  // in the global batch (int64). `first_column`, `p` and `key` are those of nn::fused::Dropout.
  // Tensors are dense. The result equals that of the host bit by bit.
  bool (*drop)(const at::Tensor& out_NI, const at::Tensor& x_NI, const at::Tensor& rows_N,
               int64_t first_column, double p, uint64_t key);
  // Writes the sum of each token's k rows of rows_RD to sum_ND, as nn::sum_of_slots does. slot_Nk:
  // the indices of the token's rows (int64). Adds added_ND if it is defined. Tensors are dense.
  bool (*sum_of_rows)(const at::Tensor& sum_ND, const at::Tensor& rows_RD,
                      const at::Tensor& slot_Nk, const at::Tensor& added_ND);
  // Fills `out`, which is dense, with the elements in `box` of a random tensor of shape `whole`.
  // The values equal those of base/random.h's streams on the host bit by bit.
  bool (*draw)(const at::Tensor& out, const Shape& whole, const mesh::Box& box, const Draws& draws);
};

// Returns the kernels if the plugin has registered them, x is a CUDA tensor in float32 or bfloat16,
// and AM_GPU_KERNELS does not turn the kernels off; otherwise null. For host tensors, returns only
// kernels that a test has set by use_on_host().
const GpuKernels* gpu_kernels(const at::Tensor& x);

// Called once, by the plugin. `kernels` must outlive the process's use of tensors.
void register_gpu_kernels(const GpuKernels& kernels);

// For tests without a GPU: from now on, operators on host tensors use `kernels`, which must run on
// the host. Null restores the usual operators.
void use_on_host(const GpuKernels* kernels);

}  // namespace am::tensor
