// What autograd keeps of one forward pass, tensor by tensor.
//
// The list follows the decoder of nn/decoder.cpp, operator by operator: which of their inputs and
// outputs those of nn/fused/ and ATen's save. Legend: N tokens of one micro-batch on this rank, D
// hidden, Q and G the widths of this rank's query and key/value heads, F its feed-forward slice, c
// bytes of the compute dtype, p of the dtype of matrix products, which is another under autocast.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/planner/layout.h"

namespace am::planner {

// The strategy's key; where it is a flag, true is "full".
config::ActivationCheckpointing checkpointing_of(const config::Plan& plan);
// Of so many layers the last one is checkpointed.
int64_t checkpointing_every(const config::Plan& plan);

struct SavedTensor {
  std::string_view what;
  double bytes = 0.0;
};

struct ActivationContext {
  double tokens = 0.0;          // N: micro-batch * sequence / cp
  double sequence = 0.0;        // positions of one sequence on this rank
  double sequence_parts = 1.0;  // over how many tp ranks sequence parallelism cuts N between layers
  double compute_bytes = 4.0;   // c
  double product_bytes = 4.0;  // p: of what matrix products take and give; under autocast its dtype
  double output_bytes = 4.0;   // of the logits that the loss reads
  bool on_host = false;        // a CPU computes: the plan's backend is gloo
  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::kOff;
  int64_t checkpointing_every = 1;

  // Of one layer, from 0.
  config::ActivationCheckpointing checkpointing_of(int layer) const;
};
ActivationContext activation_context(const config::Plan& plan, const mesh::MeshLayout& mesh);

// Of one decoder layer, given as its unit, on this rank and without recomputation.
std::vector<SavedTensor> layer_tensors(const ActivationContext& context,
                                       const model::ModelConfig& config, const Layout& layout,
                                       int64_t rank, const model::Unit& layer);

// Of the same layer under "selective" checkpointing, as nn/checkpointed_layer.h keeps it.
std::vector<SavedTensor> selective_tensors(const ActivationContext& context,
                                           const model::ModelConfig& config, const Layout& layout,
                                           int64_t rank, const model::Unit& layer);

// Of one decoder layer as the plan's activation checkpointing keeps it: all of layer_tensors(), the
// layer's input alone ("full"), selective_tensors(), or all but the
// feed-forward's ("mlp").
double layer_activations(const ActivationContext& context, const model::ModelConfig& config,
                         const Layout& layout, int64_t rank, const model::Unit& layer);
// What is computed again while one layer's backward runs; 0 without
// checkpointing.
double recomputed_activations(const ActivationContext& context, const model::ModelConfig& config,
                              const Layout& layout, int64_t rank, const model::Unit& layer);

// Elements of a transposed matrix that a product on the host copies at a time
// (nn/fused/product.cpp).
inline constexpr int64_t kMostTransposed = 1 << 19;

// Gradients of activations that are alive while one layer's or the head's backward runs, at its two
// fullest moments: `first` while all that forward saved is still there, `later` when some of it is
// gone and the buffer of the reduction holds a parameter's gradient.
struct BackwardBytes {
  double first = 0.0;
  double later = 0.0;
  bool packed_first = false;  // the buffer is there from the first moment on
};
BackwardBytes layer_backward(const ActivationContext& context, const model::ModelConfig& config,
                             const Layout& layout, int64_t rank, const model::Unit& layer);
// `vocabulary` as in logits_bytes.
BackwardBytes head_backward(const ActivationContext& context, const model::ModelConfig& config,
                            double vocabulary, bool head_trains);

// Of the embedding look-up, and of the final norm with the head's input, which a head that is
// trained keeps.
double embedding_activations(const ActivationContext& context);
double final_norm_activations(const ActivationContext& context, const model::ModelConfig& config,
                              bool head_trains);

// Logits from the head's output to the gradient that the head's backward begins with, at their
// peak. `vocabulary` is this rank's slice.
double logits_bytes(const ActivationContext& context, double vocabulary);
// What of them is left when the head's own backward begins: the gradient, as the head computed.
double logits_gradient_bytes(const ActivationContext& context, double vocabulary);

// A linear layer under autocast saves its weight as it was cast: bytes of `numel` weights, 0 where
// nothing is cast.
double cast_weights_bytes(const ActivationContext& context, double numel);

}  // namespace am::planner
