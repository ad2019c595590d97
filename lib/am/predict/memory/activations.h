// Bytes of activations outside the decoder layers: those that autograd saves in one forward pass,
// those of the logits, and those of the head's backward. Also sizes that the formulas for layers
// (layer_activations.h) use: the size of a micro-batch on a rank, the bytes that a norm saves, and
// the bytes of the copy that a matmul makes of its operand.
#pragma once

#include <cstdint>
#include <string>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/model/spec.h"

namespace am::predict {

// Properties of a plan and its layout that the formulas of activations depend on.
struct ActivationContext {
  double tokens = 0.0;         // N: tokens of one micro-batch on this rank
  double sequence = 0.0;       // positions of one sequence on this rank
  double context_ranks = 1.0;  // number of cp ranks that share a sequence
  std::string context_method;  // the plan's context.method, for example "ulysses"
  // Number of tp ranks that share the N tokens between layers under sequence parallelism; else 1.
  double sequence_parts = 1.0;
  bool cuts_vocabulary = false;  // the embedding table is sharded over the vocabulary
  // Number of tp ranks over which the tokens of routed experts are sharded.
  double expert_parts = 1.0;
  double expert_ranks = 1.0;   // number of ranks that share a layer's experts
  double compute_bytes = 4.0;  // c: bytes per element of the compute dtype
  // p: bytes per element of the inputs and outputs of matmuls (autocast's dtype, if any).
  double product_bytes = 4.0;
  double output_bytes = 4.0;  // bytes of each logit that the loss reads
  // Whether the loss copies its logits to float32, a chunk at a time (model/gpu_operators.h).
  bool loss_copies = false;
  bool skewed = false;   // worst case: every token is routed to the same experts, all on this rank
  bool on_host = false;  // the plan's backend is gloo, so a CPU computes
  bool fp8 = false;      // matrices are multiplied in FP8 (strategy.fp8)
  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::kOff;
  int64_t checkpointing_every = 1;

  // Returns the number of tokens that this rank routes to experts: N, or a part of N if the tokens
  // of routed experts are sharded over tp.
  double routed_tokens() const { return tokens / expert_parts; }
  // Whether autocast casts the operands of matmuls.
  bool casts() const { return product_bytes != compute_bytes; }
  // Returns the checkpointing mode of one layer; layers are counted from 0.
  config::ActivationCheckpointing checkpointing_of(int layer) const;
};
ActivationContext activation_context(const config::Plan& plan, const layout::Layout& layout);

// Returns the bytes of one tensor of hidden states between layers on this rank, with `width`
// elements per token.
double hidden_bytes(const ActivationContext& context, double width);
// Returns the bytes that a norm of `rows` rows of `width` elements saves for backward, without the
// norm's output. The saved tensors are the norm's input, with `input_bytes` per element, and
// statistics of each row. RMSNorm saves one number per row, in float32 or wider
// (nn/fused/rms_norm.h). ATen's LayerNorm saves the mean and the reciprocal of the standard
// deviation, in the wider of the dtypes of input and weight. `weight_bytes`: bytes per element of
// the weight.
double norm_bytes(double rows, double width, double input_bytes, model::NormKind kind,
                  double weight_bytes);

// Returns the bytes of the contiguous copy of a transposed matrix (`width` elements per token) when
// a weight's gradient is computed on the CPU. oneDNN requires a contiguous left operand; at most
// model::kMostTransposed elements are copied at a time. Returns 0 on GPUs, in dtypes other than
// float32, and with MKL, which needs no copy.
double transposed_copy(const ActivationContext& context, double width);

// Bytes of activation gradients in the backward of one layer or of the head, at each moment at
// which memory may peak. At `first`, all tensors that forward saved are live. At `later`, a part of
// these tensors is freed, and the buffer of the gradient reduction is live.
struct BackwardBytes {
  double first = 0.0;
  double later = 0.0;
  bool packed_first = false;  // the reduction's buffer is live at `first`, too
  // Bytes at a moment in attention's backward at which the reduction's buffer is live and no
  // gradient of a parameter is live; 0 if this moment cannot be the peak.
  double attention = 0.0;
  // Bytes at two moments of expert parallelism; 0 without it. `rows_arrive`: at the start of the
  // layer's backward, when the gradients of token rows have arrived at the rank of their expert.
  // `rows_return`: after the last expert, when the gradients of the experts' input rows are sent
  // back, the reduction's buffer is live, and no gradient of a parameter is live.
  double rows_arrive = 0.0;
  double rows_return = 0.0;
  // Bytes in the backward of the last expert, when the tensors of all other experts are freed; 0 if
  // the unit has no experts, or if one stacked tensor contains the weights of all experts.
  double last_expert = 0.0;
};
// Returns the bytes of activation gradients in the head's backward. `vocabulary`: size of this
// rank's slice of the vocabulary.
BackwardBytes head_backward(const ActivationContext& context, const model::ModelConfig& config,
                            double vocabulary, bool head_trains);

// Returns the bytes that the embedding look-up and the embedding's norm, if any, save for backward.
double embedding_activations(const ActivationContext& context, const model::ModelConfig& config);
// Returns the part of embedding_activations() that only a sharded vocabulary needs: for each token,
// the index of its row in this rank's slice, and whether the token is in the slice.
double cut_look_up_bytes(const ActivationContext& context);
// Returns the bytes that the final norm saves, plus the bytes of the head's input, which is saved
// only if the head is trained.
double final_norm_activations(const ActivationContext& context, const model::ModelConfig& config,
                              bool head_trains);

// Returns the peak bytes of logits and their gradient between the head's output and the start of
// the head's backward. `vocabulary`: size of this rank's slice of the vocabulary.
double logits_bytes(const ActivationContext& context, double vocabulary);
// Returns the bytes that a soft-cap of the logits keeps in addition to logits_bytes() until the
// head's backward starts; 0 if the model has no soft-cap.
double capped_logits_bytes(const ActivationContext& context, const model::ModelConfig& config,
                           double vocabulary);
// Returns the bytes of the gradient of the logits, in the dtype of the head's matmul. All other
// tensors of the loss are freed before the head's backward starts.
double logits_gradient_bytes(const ActivationContext& context, double vocabulary);

// Returns the bytes of the copy of `numel` weights in autocast's dtype, which a linear layer under
// autocast saves for backward; 0 without autocast.
double cast_weights_bytes(const ActivationContext& context, double numel);

}  // namespace am::predict
