// ATen's fused attention kernels on GPUs, cuDNN's and flash attention's, behind one forward and one
// backward function.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace am::nn::flash {

// Attention window of the kernels. A query sees the key on the diagonal, `back` keys before it and
// `ahead` keys after it; -1: all keys. The diagonal ends at the last query and the last key.
struct Reach {
  int64_t back = -1, ahead = -1;
  auto operator<=>(const Reach&) const = default;
};

// Queries, keys and values. Queries and outputs are [B, T, H, K] (batch, positions, heads, width),
// and log-sum-exps are [B, H, T]. Sequences of different lengths are concatenated to N rows:
// queries are then [N, H, K], and log-sum-exps are [H, N].
struct Inputs {
  at::Tensor q, k, v;
};
struct Outputs {
  at::Tensor out, lse;
};
// Sequence lengths. `longest_q` and `longest_k` are the largest lengths. `cumulative_q` and
// `cumulative_k` are the cumulative lengths of concatenated sequences, which begin with 0 and are
// int32; absent if sequences are not concatenated.
struct Sizes {
  std::optional<at::Tensor> cumulative_q = {}, cumulative_k = {};
  int64_t longest_q = 0, longest_k = 0;
};

// Whether forward() and backward() use cuDNN, which is about 1.7 times as fast as flash attention
// on Hopper. cuDNN requires a GPU, head dims up to 128, sequences of one length and no window.
// Causal attention also requires as many queries as keys, because cuDNN's diagonal begins at the
// first query. Returns false under deterministic algorithms, because cuDNN's backward is not
// deterministic, and if the user disabled cuDNN attention.
bool cudnn_takes(const Inputs& in, const Sizes& sizes, const Reach& reach);

// Returns the output and the scores' log-sum-exps. Attention is causal if `reach.ahead` is 0.
Outputs forward(const Inputs& in, const Sizes& sizes, const Reach& reach, double scale);
// Returns the gradients of q, k and v. `of_out` is the output's gradient, and `made` is the result
// of forward().
Inputs backward(const at::Tensor& of_out, const Inputs& in, const Outputs& made, const Sizes& sizes,
                const Reach& reach, double scale);

}  // namespace am::nn::flash
