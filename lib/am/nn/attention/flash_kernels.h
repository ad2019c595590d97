// ATen's fused attention kernels on GPUs, cuDNN's and flash attention's, behind one forward and one
// backward function.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace am::nn::flash {

// Attention window of the kernels: how many keys before and after the diagonal a query sees. The
// diagonal ends at the last query and the last key. -1 means unlimited.
struct Reach {
  int64_t back = -1, ahead = -1;
  auto operator<=>(const Reach&) const = default;
};

// Queries, keys and values. Shapes are q_BTHK and lse_BHT; sequences of different lengths are
// concatenated to q_NHK and lse_HN.
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

// Whether forward() and backward() use cuDNN, which is some 1.7 times as fast as flash attention on
// Hopper. Requires a GPU, head dims up to 128, sequences of one length and no window. Causal
// attention requires as many queries as keys, because cuDNN's diagonal begins at the first query.
// False under deterministic algorithms (cuDNN's backward is not deterministic), and if the user
// disabled cuDNN attention.
bool cudnn_takes(const Inputs& in, const Sizes& sizes, const Reach& reach);

// Returns the output and its log-sum-exp. Attention is causal if `reach.ahead` is 0.
Outputs forward(const Inputs& in, const Sizes& sizes, const Reach& reach, double scale);
// Returns the gradients of q, k and v.
Inputs backward(const at::Tensor& of_out, const Inputs& in, const Outputs& made, const Sizes& sizes,
                const Reach& reach, double scale);

}  // namespace am::nn::flash
