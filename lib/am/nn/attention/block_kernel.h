// Causal attention of a range of queries to a range of keys, one block of queries at a time.
// Attention over whole sequences (blocked.h) and over sequences on several ranks is built on these
// functions. The functions build no autograd graph.
//
//   attend({q_BHtK, k_BGsK, v_BGsV}, params, {.query = 64, .key = 0}, {out_BtHV, lse_BHt});
//
// A block of queries reads only the keys within its window. Scores and sums are float32 (float64
// for float64 inputs). On GPUs, attend() and attend_backward() call fused kernels instead if the
// kernels support the arguments (flash.h). Legend: B batch, H query heads, G key heads, T positions
// of the sequence, t local queries, s local keys, K and V widths of keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace am::nn {

struct AttentionParams {
  double scale = 1.0;                  // factor of the scores
  std::optional<double> softcap = {};  // cap c: scores become c * tanh(score / c)
  int64_t window = 0;  // number of positions that a query sees, its own included; 0: all
  // ALiBi (Press et al., 2022): after multiplication by `scale`, the score of a key d positions
  // before the query decreases by d times the head's slope. Empty: no ALiBi.
  std::vector<double> slopes = {};
  // Document index of each position, int64. A query sees only keys of its own document. Undefined
  // if each sequence is one document.
  at::Tensor document_BT = at::Tensor();
  // Indices b * T + position at which documents begin, including the first position of each
  // sequence b. Null if the indices are not known on the host.
  std::shared_ptr<const std::vector<int64_t>> document_starts = nullptr;
};

// Queries, keys and values of grouped-query attention: G divides H, and query head h reads key head
// h / (H / G).
struct Qkv {
  at::Tensor q_BHtK, k_BGsK, v_BGsV;
};

// Sequence positions of the first local query and of the first local key. Local queries are
// consecutive, and so are local keys.
struct Firsts {
  int64_t query = 0, key = 0;
};

// Result of attention. `lse` is the logarithm of the sum of a query's exponentiated scores, in the
// dtype of the scores. A query that sees no key has output 0 and lse -inf.
struct Attended {
  at::Tensor out_BtHV, lse_BHt;
};

// Writes attention's result to `attended`, whose tensors may be views. `sinks_H` contains, per
// query head, the score of an extra key that every query sees and whose value vector is 0
// (attention sinks, Xiao et al., 2023). With sinks, all keys that the queries see must be local.
void attend(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
            const Attended& attended, const std::optional<at::Tensor>& sinks_H = std::nullopt);

// Inputs of the backward pass: the gradient of the output, and what forward computed per query.
struct AttendedGradient {
  at::Tensor of_out_BHtV;
  at::Tensor lse_BHt;  // log-sum-exp over all keys that the queries see, on all ranks
  // For each query, the dot product dO . O of the output's gradient and the output, in the dtype of
  // the scores. Undefined if all keys that the queries see are local: attend_backward() then
  // computes the dot product from the keys' probabilities, and the gradient of a query with a
  // single key is exactly 0.
  at::Tensor along_BHt = at::Tensor();
  at::Tensor out_BtHV = at::Tensor();  // output over all keys; only flash attention reads it
};

// Tensors to which attend_backward() adds the gradients. The gradients of keys, values and sinks
// have the dtype of the scores. sinks_H is undefined if there are no sinks, or if another rank
// computes the sinks' gradient.
struct HeadGradients {
  at::Tensor q_BHtK, k_BGsK, v_BGsV, sinks_H = at::Tensor();
};
void attend_backward(const Qkv& heads, const AttentionParams& params, const Firsts& firsts,
                     const AttendedGradient& gradient, const HeadGradients& sums,
                     const std::optional<at::Tensor>& sinks_H = std::nullopt);

// Adds each head's sink to `attended`, which must be computed without sinks.
void join_sinks(const Attended& attended, const at::Tensor& sinks_H);
// Returns the sinks' gradient [H], in the dtype of the scores. `lse_BHt` includes the sinks.
// `along_BHt` is described in AttendedGradient.
at::Tensor gradient_of_sinks(const at::Tensor& sinks_H, const at::Tensor& lse_BHt,
                             const at::Tensor& along_BHt);
// Returns e^(from - to) as [B, t, H, 1], to be multiplied with [B, t, H, V]; 0 where `from` is
// -inf.
at::Tensor exponential_factor(const at::Tensor& from_BHt, const at::Tensor& to_BHt);

}  // namespace am::nn
