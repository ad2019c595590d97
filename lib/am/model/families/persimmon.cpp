// Persimmon: one matrix for queries, keys and values, norms over each query and key head, RoPE over
// a part of each head, LayerNorm, and an MLP without a gate. All projections and norms in the
// layers have biases.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kRotatedPart = 0.5;

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = config.o_bias = config.mlp_bias = config.norm_bias = true;
  config.gated_mlp = false;
  config.qk_norm = reader.boolean("qk_layernorm").value_or(true);
  set_rotated_part(reader, config, kRotatedPart);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  spec.modules.push_back(
      fused_attention(config, "self_attn.query_key_value", AttentionSpec::Fused::kByKeyHead, spec));
  spec.modules.push_back(matrix(Role::kAttentionOut, "self_attn.dense", config.hidden_size,
                                config.hidden_size, config.o_bias));
  if (config.qk_norm) {
    spec.modules.push_back(
        norm(config, Role::kQueryNorm, "self_attn.q_layernorm", config.head_dim));
    spec.modules.push_back(norm(config, Role::kKeyNorm, "self_attn.k_layernorm", config.head_dim));
  }
  add_plain_mlp(config, spec, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kPersimmon = {
    .model_type = "persimmon",
    .description = "Persimmon decoder: LayerNorm, q_layernorm and k_layernorm, a plain MLP",
    .layer_class = "transformers.models.persimmon.modeling_persimmon.PersimmonDecoderLayer",
    .keys = {.key_value_heads = "", .head_dim = "", .norm_eps = "layer_norm_eps"},
    .defaults = {.max_position_embeddings = 16384, .norm_eps = 1e-5, .hidden_act = "relu2"},
    .runs = false,
    .rotates_part = true,
    .norm = NormKind::kLayer,
    .names = {.norm = "model.final_layernorm"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
