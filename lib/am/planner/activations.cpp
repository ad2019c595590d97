#include "am/planner/activations.h"

#include <algorithm>
#include <variant>

#include "am/config/backend.h"
#include "am/model/family.h"
#include "am/model/gpu_operators.h"
#include "am/model/host_products.h"
#include "am/planner/backend_choice.h"
#include "am/planner/context.h"
#include "am/planner/precision.h"

namespace am::planner {

config::ActivationCheckpointing checkpointing_of(const config::Plan& plan) {
  if (const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&plan.strategy)) {
    return megatron->activation_checkpointing ? config::ActivationCheckpointing::kFull
                                              : config::ActivationCheckpointing::kOff;
  }
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  return fsdp2 != nullptr ? fsdp2->activation_checkpointing
                          : std::get<config::DDPConfig>(plan.strategy).activation_checkpointing;
}

void set_checkpointing(config::ActivationCheckpointing mode, config::DistributedConfig& strategy) {
  if (auto* fsdp2 = std::get_if<config::FSDP2Config>(&strategy)) {
    fsdp2->activation_checkpointing = mode;
  } else if (auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy)) {
    megatron->activation_checkpointing = mode != config::ActivationCheckpointing::kOff;
  } else {
    std::get<config::DDPConfig>(strategy).activation_checkpointing = mode;
  }
}

int64_t checkpointing_every(const config::Plan& plan) {
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  return fsdp2 != nullptr ? fsdp2->activation_checkpointing_every : 1;
}

config::ActivationCheckpointing ActivationContext::checkpointing_of(int layer) const {
  return (layer + 1) % checkpointing_every == 0 ? checkpointing
                                                : config::ActivationCheckpointing::kOff;
}

ActivationContext activation_context(const config::Plan& plan, const Layout& layout) {
  ActivationContext context;
  const mesh::MeshSizes& sizes = layout.mesh.sizes();
  const mesh::SequenceCut cut = sequence_cut(plan, sizes, layout.tp_plan.sequence_parallel);
  context.sequence = static_cast<double>(cut.local());
  context.context_ranks = static_cast<double>(cut.ranks);
  context.context_method = plan.context.method;
  context.tokens = context.sequence * static_cast<double>(plan.train.micro_batch_size);
  const StepPrecision precision = resolve_precision(plan);
  context.compute_bytes = static_cast<double>(dtype_size(precision.compute));
  context.product_bytes = static_cast<double>(dtype_size(precision.products));
  context.output_bytes = context.product_bytes;
  if (layout.tp_plan.sequence_parallel) context.sequence_parts = static_cast<double>(sizes.tp);
  const size_t embedding = layout.inventory.weight_of(model::Role::kEmbedding);
  context.cuts_vocabulary = layout.parameters[embedding].tp_dim.has_value();
  if (!layout.tp_plan.rules.empty()) context.expert_parts = static_cast<double>(sizes.tp);
  context.expert_ranks = static_cast<double>(sizes.ep);
  context.checkpointing = checkpointing_of(plan);
  context.checkpointing_every = checkpointing_every(plan);
  context.on_host = config::computes_on_host(asked_backend(plan));
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) {
    if (const auto& output = fsdp2->mp_policy.output_dtype) {
      context.output_bytes = static_cast<double>(dtype_size(*output));
    }
  }
  return context;
}

double hidden_bytes(const ActivationContext& context, double width) {
  return context.tokens * width / context.sequence_parts * context.compute_bytes;
}

double norm_bytes(double rows, double width, double input_bytes, model::NormKind kind,
                  double weight_bytes) {
  const double of_row = kind == model::NormKind::kLayer ? 2.0 * std::max(input_bytes, weight_bytes)
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

double embedding_activations(const ActivationContext& context) {
  return context.tokens * 8.0 + (context.cuts_vocabulary ? cut_look_up_bytes(context) : 0.0);
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

// The loss reads the logits where they are, and its gradient takes their place
// (nn/fused/cross_entropy.h). A cast to the output dtype has both at once, in forward and in
// backward. On a GPU the loss has a copy of a piece of them in float32.
double logits_bytes(const ActivationContext& context, double vocabulary) {
  const bool casts = context.output_bytes != context.product_bytes;
  const double numel = context.tokens * vocabulary;
  const double piece = std::min(numel, static_cast<double>(model::kLossElements)) * 4.0;
  return numel * (context.product_bytes + (casts ? context.output_bytes : 0.0)) +
         (context.on_host ? 0.0 : piece);
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

}  // namespace am::planner
