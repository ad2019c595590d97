// GLM-4 (9B) and GLM-4-0414: RoPE over a part of each head, and one matrix for gate and up.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kRotatedPart = 0.5;

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = reader.boolean("attention_bias").value_or(true);
  config.rope_interleaved = true;
  set_rotated_part(reader, config, kRotatedPart);
}

void read_sandwich(ConfigReader& reader, ModelConfig& config) {
  read_config(reader, config);
  config.hidden_norms = 4;
}

LayerSpec glm_layer(const ModelConfig& config, int64_t layer, std::span<const NamedNorm> norms) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_fused_mlp(config, spec, "mlp.gate_up_proj", "mlp.down_proj");
  add_norms(config, spec, norms);
  return spec;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  return glm_layer(config, layer, kLlamaNorms);
}

LayerSpec describe_sandwich(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 4> kNorms = {
      {{Role::kInputNorm, "input_layernorm"},
       {Role::kPreFeedForwardNorm, "post_attention_layernorm"},
       {Role::kPostAttentionNorm, "post_self_attn_layernorm"},
       {Role::kPostFeedForwardNorm, "post_mlp_layernorm"}}};
  LayerSpec spec = glm_layer(config, layer, kNorms);
  spec.residual = Residual::kSandwich;
  return spec;
}

constexpr ConfigDefaults kDefaults = {.max_position_embeddings = 131072,
                                      .key_value_heads = 2,
                                      .head_dim = 128,
                                      .norm_eps = 1.5625e-7,
                                      .pad_token_id = 151329};

}  // namespace

const Family kGlm = {
    .model_type = "glm",
    .description = "GLM-4 decoder: partly rotated attention, gate and up in one matrix",
    .layer_class = "transformers.models.glm.modeling_glm.GlmDecoderLayer",
    .defaults = kDefaults,
    .rotates_part = true,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

const Family kGlm4 = {
    .model_type = "glm4",
    .description = "GLM-4-0414 decoder: GLM-4's with norms after attention and MLP too",
    .layer_class = "transformers.models.glm4.modeling_glm4.Glm4DecoderLayer",
    .defaults = kDefaults,
    .rotates_part = true,
    .read_config = read_sandwich,
    .describe_layer = describe_sandwich,
};

}  // namespace am::model
