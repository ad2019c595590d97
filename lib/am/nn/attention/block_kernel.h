// Causal attention of some positions' queries to some positions' keys, a block of queries at a
// time: what a whole sequence's attention (blocked.h) is made of, and that of a sequence which lies
// on several ranks. No graph.
//
//   attend({q_BHtK, k_BGsK, v_BGsV}, look, {.query = 64, .key = 0}, {out_BtHV, lse_BHt});
//
// A block of queries reads the keys that its window reaches and no others. Scores and sums are
// float32 (float64 for float64). On GPUs flash attention computes what it takes (flash.h). Legend:
// B batch, H query heads, G key heads, T positions of the sequence, t queries and s keys at hand, K
// and V widths of keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace am::nn {

struct Look {
  double scale = 1.0;                     // of the scores
  std::optional<double> softcap = {};     // c: scores become c * tanh(score / c)
  int64_t window = 0;                     // positions looked back at, itself included; 0: all
  at::Tensor document_BT = at::Tensor();  // int64, of every position of the sequence; queries see
                                          // keys of their own document alone
  // Where documents begin in the rows [B * T] of all sequences, each of which begins with one; on
  // the host. Null: it does not know.
  std::shared_ptr<const std::vector<int64_t>> document_starts = nullptr;
};

// G divides H: query head h reads key head h / (H / G).
struct Heads {
  at::Tensor q_BHtK, k_BGsK, v_BGsV;
};

// Where queries and keys at hand begin in the sequence; from there on they follow each other.
struct Firsts {
  int64_t query = 0, key = 0;
};

// `lse`: the logarithm of the sum of a query's exponentiated scores, as wide as the scores. A query
// that sees none of the keys has 0 and -inf.
struct Attended {
  at::Tensor out_BtHV, lse_BHt;
};

// Fills `attended`, whose tensors may be views. `sinks_H`: the score of a key of each head that
// every query sees, and whose value is 0 (attention sinks, Xiao et al., 2023); with it all keys
// that the queries see must be at hand.
void attend(const Heads& heads, const Look& look, const Firsts& firsts, const Attended& attended,
            const std::optional<at::Tensor>& sinks_H = std::nullopt);

// What backward knows of the queries.
struct AttendedGradient {
  at::Tensor of_out_BHtV;
  at::Tensor lse_BHt;  // over all keys that the queries saw, here or elsewhere
  // dO . O of each query, as wide as the scores. Undefined: all keys that they saw are here, and it
  // is summed from them, so that a query that sees one key has a gradient of exactly 0.
  at::Tensor along_BHt = at::Tensor();
  at::Tensor out_BtHV =
      at::Tensor();  // what they made of all those keys; flash attention's reads it
};

// What gradients are added to: of keys, values and sinks as wide as the scores. Sinks undefined:
// there are none, or they are somebody else's.
struct HeadGradients {
  at::Tensor q_BHtK, k_BGsK, v_BGsV, sinks_H = at::Tensor();
};
void attend_backward(const Heads& heads, const Look& look, const Firsts& firsts,
                     const AttendedGradient& gradient, const HeadGradients& sums,
                     const std::optional<at::Tensor>& sinks_H = std::nullopt);

// Gives every query one key more, its head's sink, to what it made of all others.
void join_sinks(const Attended& attended, const at::Tensor& sinks_H);
// -> H, as wide as the scores. `lse_BHt` with the sinks, `along_BHt` as in AttendedGradient.
at::Tensor gradient_of_sinks(const at::Tensor& sinks_H, const at::Tensor& lse_BHt,
                             const at::Tensor& along_BHt);
// e^(from - to), of [B, H, t] as factors of [B, t, H, V]; 0 where `from` is -inf.
at::Tensor exponential_factor(const at::Tensor& from_BHt, const at::Tensor& to_BHt);

}  // namespace am::nn
