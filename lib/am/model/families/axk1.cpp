// A.X K1: DeepSeek V3 with a norm after the experts in each layer that has experts.
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

// Reads which layers have experts if the config has no mlp_layer_types. After the dense first
// layers, a layer has experts if its index is a multiple of `moe_layer_freq`.
void read_expert_layers(ConfigReader& reader, ModelConfig& config) {
  const int64_t step = reader.integer("moe_layer_freq", 1, kMostLayers).value_or(1);
  if (!config.moe.has_value()) return;
  for (size_t i = 0; i < config.moe->layers.size(); ++i) {
    if (static_cast<int64_t>(i) % step != 0) config.moe->layers[i] = false;
  }
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_deepseek(reader, config,
                {.experts = 192,
                 .experts_per_token = 8,
                 .expert_width = 2048,
                 .shared_experts = 1,
                 .dense_layers = 1,
                 .groups = 8,
                 .topk_groups = 4,
                 .scale = 2.5});
  if (reader.raw("mlp_layer_types").is_null()) {
    read_expert_layers(reader, config);
  } else {
    read_mlp_layer_types(reader, config, 0);
  }
  config.mla->interleaved = reader.boolean("rope_interleave").value_or(true);
  read_normalisation(reader, config, true);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = deepseek_layer(config, layer, DeepseekRouter::kV3);
  if (has_experts(config, layer)) {
    spec.modules.push_back(
        norm(config, Role::kPostFeedForwardNorm, "post_mlp_layernorm", config.hidden_size));
  }
  return spec;
}

}  // namespace

const Family kAxk1 = {
    .model_type = "axk1",
    .description = "A.X K1 decoder: DeepSeek V3's with a norm after the experts",
    .layer_class = "transformers.models.axk1.modeling_axk1.AXK1DecoderLayer",
    .keys = {.head_dim = "qk_rope_head_dim"},
    .defaults = {.max_position_embeddings = 32768, .head_dim = 64},
    .runs = false,
    .rotary = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
