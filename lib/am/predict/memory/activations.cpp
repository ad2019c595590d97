#include "am/predict/memory/activations.h"

#include <algorithm>
#include <string>
#include <variant>

#include "am/config/backend.h"
#include "am/layout/backend_choice.h"
#include "am/layout/context.h"
#include "am/layout/precision.h"
#include "am/model/family.h"
#include "am/model/gpu_operators.h"
#include "am/model/host_products.h"

namespace am::predict {

config::ActivationCheckpointing ActivationContext::checkpointing_of(int layer) const {
  return (layer + 1) % checkpointing_every == 0 ? checkpointing
                                                : config::ActivationCheckpointing::kOff;
}

ActivationContext activation_context(const config::Plan& plan, const layout::Layout& layout) {
  ActivationContext context;
  const mesh::MeshSizes& sizes = layout.mesh.sizes();
  const mesh::SequenceCut cut = layout::sequence_cut(plan, sizes, layout.tp_plan.sequence_parallel);
  context.sequence = static_cast<double>(cut.local());
  context.context_ranks = static_cast<double>(cut.ranks);
  context.context_method = plan.context.method;
  context.tokens = context.sequence * static_cast<double>(plan.train.micro_batch_size);
  const layout::StepPrecision precision = layout::resolve_precision(plan);
  context.compute_bytes = static_cast<double>(layout::dtype_size(precision.compute));
  context.product_bytes = static_cast<double>(layout::dtype_size(precision.products));
  context.output_bytes = context.product_bytes;
  std::string of_logits = precision.products;
  if (layout.tp_plan.sequence_parallel) context.sequence_parts = static_cast<double>(sizes.tp);
  const size_t embedding = layout.inventory.weight_of(model::Role::kEmbedding);
  context.cuts_vocabulary = layout.parameters[embedding].tp_dim.has_value();
  if (!layout.tp_plan.rules.empty()) context.expert_parts = static_cast<double>(sizes.tp);
  context.expert_ranks = static_cast<double>(sizes.ep);
  context.checkpointing = config::checkpointing_of(plan.strategy);
  context.fp8 = config::fp8_of(plan.strategy) != config::Fp8Recipe::kNone;
  context.checkpointing_every = config::checkpointing_every(plan.strategy);
  context.on_host = config::computes_on_host(layout::asked_backend(plan));
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) {
    if (const auto& output = fsdp2->mp_policy.output_dtype) {
      context.output_bytes = static_cast<double>(layout::dtype_size(*output));
      of_logits = *output;
    }
  }
  const bool has_terms = plan.train.label_smoothing != 0.0 || plan.train.z_loss != 0.0;
  context.loss_copies = !context.on_host && (of_logits == "float16" || has_terms);
  return context;
}

double hidden_bytes(const ActivationContext& context, double width) {
  return context.tokens * width / context.sequence_parts * context.compute_bytes;
}

double norm_bytes(double rows, double width, double input_bytes, model::NormKind kind,
                  double weight_bytes) {
  const double of_row = model::is_layer_norm(kind) ? 2.0 * std::max(input_bytes, weight_bytes)
                                                   : std::max(4.0, input_bytes);
  return rows * (width * input_bytes + of_row);
}

double transposed_copy(const ActivationContext& context, double width) {
  const bool copies =
      context.on_host && context.product_bytes == 4.0 && model::products_are_onednns();
  return copies ? std::min(context.tokens * width, static_cast<double>(model::kMostTransposed)) *
                      context.product_bytes
                : 0.0;
}

BackwardBytes head_backward(const ActivationContext& context, const model::ModelConfig& config,
                            double vocabulary, bool head_trains) {
  const double hidden =
      context.tokens * static_cast<double>(config.hidden_size) * context.product_bytes;
  const double copy = head_trains ? transposed_copy(context, vocabulary) : 0.0;
  return {hidden + copy, hidden};
}

double embedding_activations(const ActivationContext& context, const model::ModelConfig& config) {
  const model::Family& family = model::family_of(config);
  const double norm = family.names.embedding_norm.empty()
                          ? 0.0
                          : norm_bytes(context.tokens / context.sequence_parts,
                                       static_cast<double>(config.hidden_size),
                                       context.compute_bytes, family.norm, context.compute_bytes);
  return context.tokens * 8.0 + (context.cuts_vocabulary ? cut_look_up_bytes(context) : 0.0) + norm;
}

double cut_look_up_bytes(const ActivationContext& context) {
  return context.tokens * (8.0 + context.compute_bytes);
}

double final_norm_activations(const ActivationContext& context, const model::ModelConfig& config,
                              bool head_trains) {
  const auto width = static_cast<double>(config.hidden_size);
  const model::NormKind kind = model::family_of(config).norm;
  return norm_bytes(context.tokens / context.sequence_parts, width, context.compute_bytes, kind,
                    context.compute_bytes) +
         (head_trains ? context.tokens * width * context.product_bytes : 0.0);
}

// The loss reads the logits without a copy, and the gradient of the logits overwrites the logits
// (nn/fused/cross_entropy.h). There is one exception: on a GPU, the loss copies the logits to
// float32, one chunk at a time, if they are float16 or if the loss has label smoothing or a z-loss.
// If the logits are cast to the output dtype, the original and the cast logits are both live, in
// forward and in backward.
double logits_bytes(const ActivationContext& context, double vocabulary) {
  const bool casts = context.output_bytes != context.product_bytes;
  const double numel = context.tokens * vocabulary;
  const double piece = std::min(numel, static_cast<double>(model::kLossElements)) * 4.0;
  return numel * (context.product_bytes + (casts ? context.output_bytes : 0.0)) +
         (context.loss_copies ? piece : 0.0);
}

double capped_logits_bytes(const ActivationContext& context, const model::ModelConfig& config,
                           double vocabulary) {
  return config.logit_softcap ? logits_gradient_bytes(context, vocabulary) : 0.0;
}

double logits_gradient_bytes(const ActivationContext& context, double vocabulary) {
  return context.tokens * vocabulary * context.product_bytes;
}

double cast_weights_bytes(const ActivationContext& context, double numel) {
  return context.casts() ? numel * context.product_bytes : 0.0;
}

}  // namespace am::predict
