// Hunyuan (dense): the Llama decoder with norms over each rotated query and key head.
#include <cmath>

#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

// Reads the keys of Hunyuan. Its "dynamic" rotary embedding with a key alpha has a fixed, larger
// theta (NTK-aware scaling).
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = config.qk_norm_follows_rope = true;
  const auto alpha = rope_number(reader, "alpha", 1e-6, 1e9);
  if (config.rope.type != "dynamic" || !alpha.has_value()) return;
  const auto width = static_cast<double>(config.head_dim);
  config.rope.type = "default";
  config.rope.theta *= std::pow(*alpha, width / (width - 2.0));
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec,
                {.query_norm = "self_attn.query_layernorm", .key_norm = "self_attn.key_layernorm"});
  add_gated_mlp(config, spec);
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kHunyuanV1Dense = {
    .model_type = "hunyuan_v1_dense",
    .description = "Hunyuan decoder: Llama's with norms over rotated queries and keys",
    .layer_class =
        "transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense.HunYuanDenseV1DecoderLayer",
    .defaults = {.max_position_embeddings = 2048, .norm_eps = 1e-5, .pad_token_id = 0},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
