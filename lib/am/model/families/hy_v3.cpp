// Hunyuan 3 (Hy3): Qwen3's attention, and DeepSeek V3's experts.
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

// Reads the keys of Hunyuan 3. Experts with biases cannot be planned.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  require_boolean(reader, "mlp_bias", false, "experts with biases are not supported");
  read_deepseek_experts(reader, config,
                        {.experts = 192,
                         .experts_per_token = 8,
                         .expert_width = 1536,
                         .shared_experts = 1,
                         .dense_layers = 1,
                         .groups = 1,
                         .topk_groups = 1,
                         .scale = 1.0,
                         .shared_key = "num_shared_experts"});
  read_mlp_layer_types(reader, config, 1);
  const double scale = read_switchable(reader, "router_scaling_factor", 2.826).value_or(1.0);
  if (!config.moe.has_value()) return;
  config.moe->normalise = true;
  config.moe->scale = scale;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  if (has_experts(config, layer)) {
    add_v3_experts(config, spec,
                   {.router = "mlp.router.gate",
                    .correction = "mlp",
                    .correction_leaf = "expert_bias",
                    .shared = "mlp.shared_mlp"});
  } else {
    add_gated_mlp(config, spec);
  }
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kHyV3 = {
    .model_type = "hy_v3",
    .description = "Hunyuan 3 decoder: Qwen3's attention, DeepSeek V3's experts",
    .layer_class = "transformers.models.hy_v3.modeling_hy_v3.HYV3DecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 8,
                 .head_dim = 128,
                 .norm_eps = 1e-5,
                 .rope_theta = 11158840.0,
                 .initializer_range = 0.006},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
