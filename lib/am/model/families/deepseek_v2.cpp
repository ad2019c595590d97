// DeepSeek V2 and V2-Lite: latent attention, dense first layers, then routed and shared experts.
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_deepseek(reader, config,
                {.experts = 64,
                 .experts_per_token = 0,
                 .expert_width = 1407,
                 .shared_experts = 2,
                 .dense_layers = 0,
                 .groups = 1,
                 .topk_groups = 1,
                 .scale = 1.0});
  // Only topk_method "group_limited_greedy" limits routing to groups of experts.
  const bool grouped = reader.text("topk_method").value_or("greedy") == "group_limited_greedy";
  if (config.moe.has_value() && !grouped) config.moe->groups = config.moe->topk_groups = 1;
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  return deepseek_layer(config, layer, DeepseekRouter::kV2);
}

}  // namespace

const Family kDeepseekV2 = {
    .model_type = "deepseek_v2",
    .description = "DeepSeek V2 decoder: latent attention, dense first layers, shared experts",
    .layer_class = "transformers.models.deepseek_v2.modeling_deepseek_v2.DeepseekV2DecoderLayer",
    .keys = {.head_dim = "qk_rope_head_dim"},
    .defaults = {.max_position_embeddings = 2048, .head_dim = 64},
    .rotary = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
