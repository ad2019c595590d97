// ATen's fused attention kernels on GPUs, cuDNN's and flash attention's, behind one forward and one
// backward function.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace am::nn::flash {

// Attention window of the kernels: number of keys back from, and ahead of, the diagonal that ends
// at the last query and the last key. -1: unlimited.
struct Reach {
  int64_t back = -1, ahead = -1;
  auto operator<=>(const Reach&) const = default;
};

// Shapes: q_BTHK, or q_NHK for sequences of different lengths, concatenated; lse_BHT, or lse_HN.
struct Inputs {
  at::Tensor q, k, v;
};
struct Outputs {
  at::Tensor out, lse;
};
struct Sizes {
  std::optional<at::Tensor> cumulative_q = {}, cumulative_k = {};
  int64_t longest_q = 0, longest_k = 0;
};

// Whether forward() and backward() use cuDNN, some 1.7 times as fast as flash attention on Hopper:
// on a GPU, for head dims up to 128 and sequences of one length, without a window and, if causal,
// with as many queries as keys, because cuDNN's diagonal begins at the first query. Not under
// deterministic algorithms (cuDNN's backward is not deterministic) and not if the user disabled
// cuDNN attention.
bool cudnn_takes(const Inputs& in, const Sizes& sizes, const Reach& reach);

// `reach.ahead` 0: causal.
Outputs forward(const Inputs& in, const Sizes& sizes, const Reach& reach, double scale);
// Returns the gradients of q, k and v.
Inputs backward(const at::Tensor& of_out, const Inputs& in, const Outputs& made, const Sizes& sizes,
                const Reach& reach, double scale);

}  // namespace am::nn::flash
