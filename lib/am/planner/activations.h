// What autograd keeps of one forward pass outside of the decoder's layers, and what the formulas of
// layers (layer_activations.h) share with it: the sizes of a micro-batch on a rank, norms, the copy
// that a product makes.
#pragma once

#include <cstdint>
#include <string>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/model/spec.h"
#include "am/planner/layout.h"

namespace am::planner {

// The strategy's key; where it is a flag, true is "full".
config::ActivationCheckpointing checkpointing_of(const config::Plan& plan);
// Megatron-FSDP knows full recomputation and none.
void set_checkpointing(config::ActivationCheckpointing mode, config::DistributedConfig& strategy);
// Of so many layers the last one is checkpointed.
int64_t checkpointing_every(const config::Plan& plan);

struct ActivationContext {
  double tokens = 0.0;          // N: micro-batch * sequence / cp
  double sequence = 0.0;        // positions of one sequence on this rank
  double context_ranks = 1.0;   // over how many cp ranks sequences lie
  std::string context_method;   // context.method
  double sequence_parts = 1.0;  // over how many tp ranks sequence parallelism cuts N between layers
  bool cuts_vocabulary = false;  // each tp rank looks up its own tokens of the vocabulary
  double expert_parts = 1.0;     // over how many tp ranks the tokens of routed experts are dealt
  double expert_ranks = 1.0;     // over how many ranks a layer's experts lie
  double compute_bytes = 4.0;    // c
  double product_bytes = 4.0;  // p: of what matrix products take and give; under autocast its dtype
  double output_bytes = 4.0;   // of the logits that the loss reads
  bool skewed = false;         // every token takes the same experts, which are on this rank
  bool on_host = false;        // a CPU computes: the plan's backend is gloo
  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::kOff;
  int64_t checkpointing_every = 1;

  // N, or this rank's part of them where routed experts' are dealt out.
  double routed_tokens() const { return tokens / expert_parts; }
  // Matrix products have their operands narrowed first.
  bool casts() const { return product_bytes != compute_bytes; }
  // Of one layer, from 0.
  config::ActivationCheckpointing checkpointing_of(int layer) const;
};
ActivationContext activation_context(const config::Plan& plan, const Layout& layout);

// Hidden states of so many elements a token between layers, as this rank has them.
double hidden_bytes(const ActivationContext& context, double width);
// A norm of `rows` rows, its output not counted: its input of `input_bytes` an element, and a row's
// root mean square (nn/fused/rms_norm.h), or its mean and deviation, which ATen's LayerNorm keeps
// as wide as the wider of its input and its weight (`weight_bytes`).
double norm_bytes(double rows, double width, double input_bytes, model::NormKind kind,
                  double weight_bytes);

// The product for the gradient of a weight reads its left side, `width` a token, transposed: bytes
// of the copy that is made of it on the host; 0 elsewhere.
double transposed_copy(const ActivationContext& context, double width);

// Gradients of activations that are alive while one layer's or the head's backward runs, at its
// fullest moments: `first` while all that forward saved is still there, `later` when some of it is
// gone and the buffer of the reduction holds a parameter's gradient.
struct BackwardBytes {
  double first = 0.0;
  double later = 0.0;
  bool packed_first = false;  // the buffer is there from the first moment on
  // A third one, with the buffer and no parameter's gradient: attention's. 0: below the others.
  double attention = 0.0;
  // Where experts lie on several ranks: before all of these, when rows have arrived, and after the
  // last expert, when they go back; the latter as `attention`. 0: they do not.
  double rows_arrive = 0.0;
  double rows_return = 0.0;
};
// Of the head. `vocabulary` as in logits_bytes.
BackwardBytes head_backward(const ActivationContext& context, const model::ModelConfig& config,
                            double vocabulary, bool head_trains);

// Of the embedding look-up, and of the final norm with the head's input, which a head that is
// trained keeps.
double embedding_activations(const ActivationContext& context);
// Beside the ids: each one's place in a slice of the vocabulary, and whether it lies there.
double cut_look_up_bytes(const ActivationContext& context);
double final_norm_activations(const ActivationContext& context, const model::ModelConfig& config,
                              bool head_trains);

// Logits from the head's output to the gradient that the head's backward begins with, at their
// peak. `vocabulary` is this rank's slice.
double logits_bytes(const ActivationContext& context, double vocabulary);
// What a soft-cap keeps beside them until then; 0 where the model has none.
double capped_logits_bytes(const ActivationContext& context, const model::ModelConfig& config,
                           double vocabulary);
// What of them is left when the head's own backward begins: the gradient, as the head computed.
double logits_gradient_bytes(const ActivationContext& context, double vocabulary);

// A linear layer under autocast saves its weight as it was cast: bytes of `numel` weights, 0 where
// nothing is cast.
double cast_weights_bytes(const ActivationContext& context, double numel);

}  // namespace am::planner
