// Memory that autograd saves outside the decoder layers in one forward pass, and quantities that
// the layers' formulas (layer_activations.h) share: sizes of a micro-batch on a rank, norms, the
// copy that a matmul makes.
#pragma once

#include <cstdint>
#include <string>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/model/spec.h"

namespace am::predict {

struct ActivationContext {
  double tokens = 0.0;           // N: micro-batch * sequence / cp
  double sequence = 0.0;         // positions of one sequence on this rank
  double context_ranks = 1.0;    // number of cp ranks that share a sequence
  std::string context_method;    // context.method
  double sequence_parts = 1.0;   // tp ranks over which sequence parallelism shards N between layers
  bool cuts_vocabulary = false;  // the embedding is sharded over the vocabulary
  // Number of tp ranks over which the tokens of routed experts are sharded.
  double expert_parts = 1.0;
  double expert_ranks = 1.0;   // number of ranks that share a layer's experts
  double compute_bytes = 4.0;  // c: bytes of the compute dtype
  // p: bytes of the inputs and outputs of matmuls (autocast's dtype, if any).
  double product_bytes = 4.0;
  double output_bytes = 4.0;  // bytes of a logit that the loss reads
  // Whether the loss copies its logits to float32, a chunk at a time (model/gpu_operators.h).
  bool loss_copies = false;
  bool skewed = false;   // worst case: all tokens are routed to the same experts, on this rank
  bool on_host = false;  // the plan's backend is gloo, so a CPU computes
  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::kOff;
  int64_t checkpointing_every = 1;

  // N, or this rank's part of N if the tokens of routed experts are sharded over tp.
  double routed_tokens() const { return tokens / expert_parts; }
  // Whether autocast casts the operands of matmuls.
  bool casts() const { return product_bytes != compute_bytes; }
  // Mode of one layer, counted from 0.
  config::ActivationCheckpointing checkpointing_of(int layer) const;
};
ActivationContext activation_context(const config::Plan& plan, const layout::Layout& layout);

// Bytes of this rank's hidden states between layers, with `width` elements per token.
double hidden_bytes(const ActivationContext& context, double width);
// Bytes that a norm of `rows` rows saves, without its output: its input with `input_bytes` per
// element, and per row the root mean square (nn/fused/rms_norm.h), or mean and deviation, which
// ATen's LayerNorm stores in the wider dtype of its input and its weight (`weight_bytes`).
double norm_bytes(double rows, double width, double input_bytes, model::NormKind kind,
                  double weight_bytes);

// Bytes of the copy that a weight's gradient makes on the CPU: the matmul reads its left operand,
// `width` elements per token, transposed. 0 on GPUs and where no copy is made.
double transposed_copy(const ActivationContext& context, double width);

// Activation gradients alive at the peaks of one layer's or the head's backward: `first` while
// everything that forward saved is still alive, `later` when some of it is freed and the
// reduction's buffer holds a parameter's gradient.
struct BackwardBytes {
  double first = 0.0;
  double later = 0.0;
  bool packed_first = false;  // the reduction's buffer exists from the first moment on
  // A third moment, in attention, with the buffer and without a parameter's gradient. 0: below the
  // others.
  double attention = 0.0;
  // With expert parallelism, two more moments: before all others, when rows have arrived at their
  // experts, and after the last expert, when rows are sent back (with the buffer, like
  // `attention`). 0 without expert parallelism.
  double rows_arrive = 0.0;
  double rows_return = 0.0;
};
// Activation gradients of the head's backward. `vocabulary` as in logits_bytes.
BackwardBytes head_backward(const ActivationContext& context, const model::ModelConfig& config,
                            double vocabulary, bool head_trains);

// Saved bytes of the embedding look-up, and of the final norm with the head's input, which is saved
// only if the head is trained.
double embedding_activations(const ActivationContext& context);
// Additional bytes for a sharded vocabulary: each token's row in this rank's slice, and whether it
// is in the slice.
double cut_look_up_bytes(const ActivationContext& context);
double final_norm_activations(const ActivationContext& context, const model::ModelConfig& config,
                              bool head_trains);

// Peak bytes of the logits, from the head's output to the gradient with which the head's backward
// starts. `vocabulary` is the size of this rank's slice.
double logits_bytes(const ActivationContext& context, double vocabulary);
// Additional bytes that a soft-cap keeps until then; 0 if the model has none.
double capped_logits_bytes(const ActivationContext& context, const model::ModelConfig& config,
                           double vocabulary);
// Bytes left when the head's own backward starts: the logits' gradient in the head's compute dtype.
double logits_gradient_bytes(const ActivationContext& context, double vocabulary);

// Bytes of `numel` weights in autocast's dtype, which a linear layer under autocast saves; 0
// without autocast.
double cast_weights_bytes(const ActivationContext& context, double numel);

}  // namespace am::predict
