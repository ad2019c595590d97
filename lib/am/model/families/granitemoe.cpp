// Granite 3 MoE: Granite's decoder with experts in every layer, stored as one tensor per
// projection. granitemoe has no shared experts, granitemoeshared has them.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/granite.h"

namespace am::model {
namespace {

void read_attention(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  read_granite_factors(reader, config);
}

void read_routed_experts(ConfigReader& reader, ModelConfig& config, bool may_be_dense) {
  read_moe(reader, config,
           {.experts = {"num_local_experts"},
            .default_experts = 8,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 2,
            .width = "intermediate_size",
            .default_width = 11008},
           may_be_dense);
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention(reader, config);
  read_routed_experts(reader, config, /*may_be_dense=*/false);
}

void read_shared_config(ConfigReader& reader, ModelConfig& config) {
  read_attention(reader, config);
  read_granite_experts(reader, config);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_norms(config, spec, kLlamaNorms);
  add_granite_experts(config, spec);
  return spec;
}

}  // namespace

void read_granite_experts(ConfigReader& reader, ModelConfig& config, int64_t shared) {
  // Without routed experts, the shared experts are the model's MLP, whose width must be above 0.
  const bool may_be_dense = shared > 0;
  const int64_t least = may_be_dense ? 1 : 0;
  const int64_t width =
      reader.integer("shared_intermediate_size", least, kMaxWidth).value_or(shared);
  read_routed_experts(reader, config, may_be_dense);
  if (config.moe.has_value()) {
    config.moe->shared_width = width;
  } else if (width > 0) {
    config.intermediate_size = width;
  }
}

void add_granite_experts(const ModelConfig& config, LayerSpec& spec,
                         const GraniteExpertNames& names) {
  const int64_t width = config.moe->expert_width;
  const int64_t hidden = config.hidden_size;
  spec.router->score = RouterSpec::Score::kSoftmaxOfTaken;
  add_router(config, spec, names.router);
  spec.modules.push_back(
      stacked_experts(config, Role::kExpertGateUp, names.gate_up, 2 * width, hidden));
  spec.modules.back().leaf = names.leaf_gate_up;
  spec.modules.push_back(stacked_experts(config, Role::kExpertDown, names.down, hidden, width));
  spec.modules.back().leaf = names.leaf_down;
  if (config.moe->shared_width > 0) {
    add_fused_shared_experts(config, spec, "shared_mlp.input_linear", "shared_mlp.output_linear");
  }
}

const Family kGraniteMoe = {
    .model_type = "granitemoe",
    .description = "Granite MoE decoder: Granite's factors, experts in every layer",
    .layer_class = "transformers.models.granitemoe.modeling_granitemoe.GraniteMoeDecoderLayer",
    .defaults = {.max_position_embeddings = 2048},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

const Family kGraniteMoeShared = {
    .model_type = "granitemoeshared",
    .description = "Granite MoE decoder with shared experts",
    .layer_class =
        "transformers.models.granitemoeshared.modeling_granitemoeshared."
        "GraniteMoeSharedDecoderLayer",
    .defaults = {.max_position_embeddings = 2048},
    .runs = false,
    .read_config = read_shared_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
