// Sarvam. sarvam_mla is DeepSeek V3 with other defaults. sarvam_moe has one matrix for queries,
// keys and values, and DeepSeek V3's experts.
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr DeepseekDefaults experts(int64_t taken, int64_t width) {
  return {.experts = 128,
          .experts_per_token = taken,
          .expert_width = width,
          .shared_experts = 1,
          .dense_layers = 1,
          .groups = 1,
          .topk_groups = 1,
          .scale = 2.5};
}

void read_mla_config(ConfigReader& reader, ModelConfig& config) {
  read_latent_attention(reader, config, {.query_rank = 0});
  read_deepseek_experts(reader, config, experts(8, 2048));
  config.mla->interleaved = reader.boolean("rope_interleave").value_or(true);
  read_normalisation(reader, config, true);
  read_mtp_layers(reader, config, 0);
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = reader.boolean("attention_bias").value_or(false);
  config.qk_norm = reader.boolean("use_qk_norm").value_or(true);
  read_deepseek_experts(reader, config, experts(6, 1024));
  read_normalisation(reader, config, true);
  read_mtp_layers(reader, config, 0);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  spec.modules.push_back(fused_attention(config, "attention.query_key_value",
                                         AttentionSpec::Fused::kConcatenated, spec));
  spec.modules.push_back(matrix(Role::kAttentionOut, "attention.dense", config.hidden_size,
                                config.num_attention_heads * config.head_dim));
  if (config.qk_norm) {
    spec.modules.push_back(
        norm(config, Role::kQueryNorm, "attention.query_layernorm", config.head_dim));
    spec.modules.push_back(
        norm(config, Role::kKeyNorm, "attention.key_layernorm", config.head_dim));
  }
  if (has_experts(config, layer)) {
    add_v3_experts(config, spec, {.correction_leaf = "expert_bias"});
  } else {
    add_gated_mlp(config, spec);
  }
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kSarvamMla = {
    .model_type = "sarvam_mla",
    .description = "Sarvam decoder: DeepSeek V3's with fewer experts",
    .layer_class = "transformers.models.deepseek_v3.modeling_deepseek_v3.DeepseekV3DecoderLayer",
    .keys = {.head_dim = "qk_rope_head_dim"},
    .defaults = {.max_position_embeddings = 4096, .head_dim = 64, .initializer_range = 0.006},
    .runs = false,
    .rotary = false,
    .read_config = read_mla_config,
    .describe_layer = deepseek_v3_layer,
};

const Family kSarvamMoe = {
    .model_type = "sarvam_moe",
    .description = "Sarvam MoE decoder: one matrix for q, k and v, DeepSeek V3's experts",
    .layer_class = "transformers.models.glm4_moe.modeling_glm4_moe.Glm4MoeDecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 4,
                 .head_dim = 64,
                 .rope_theta = 8000000.0,
                 .initializer_range = 0.006,
                 .pad_token_id = 0},
    .runs = false,
    .rotates_part = true,
    .names = {.embedding = "model.word_embeddings"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
