// Arcee Trinity (AFMoE): norms before and after attention and MLP, a gate of attention's output, a
// sliding window with RoPE in three of four layers, and experts that are chosen by sigmoid scores.
#include <cmath>

#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 1024;
constexpr int64_t kPattern = 4;

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  config.hidden_norms = 4;
  if (reader.boolean("mup_enabled").value_or(false)) {
    config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  }
  read_window(reader, config, kWindow);
  read_window_layers(
      reader, config,
      reader.integer("global_attn_every_n_layers", 1, kMostLayers).value_or(kPattern));
  rotate_windowed_layers(config);
  read_deepseek_experts(reader, config,
                        {.experts = 64,
                         .experts_per_token = 6,
                         .expert_width = 1408,
                         .shared_experts = 2,
                         .dense_layers = 0,
                         .groups = 1,
                         .topk_groups = 1,
                         .scale = 1.0,
                         .shared_key = "num_shared_experts"});
  const int64_t dense = reader.integer("num_dense_layers", 0, kMostLayers).value_or(1);
  const double scale = read_switchable(reader, "route_scale", 1.0).value_or(1.0);
  if (!config.moe.has_value()) return;
  set_dense_layers(config, dense);
  config.moe->normalise = true;
  config.moe->scale = scale;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 4> kNorms = {
      {{Role::kInputNorm, "input_layernorm"},
       {Role::kPostAttentionNorm, "post_attention_layernorm"},
       {Role::kPreFeedForwardNorm, "pre_mlp_layernorm"},
       {Role::kPostFeedForwardNorm, "post_mlp_layernorm"}}};
  LayerSpec spec = start_layer(config, layer);
  spec.residual = Residual::kSandwich;
  add_attention(config, spec);
  spec.modules.push_back(other("self_attn.gate_proj", config.num_attention_heads * config.head_dim,
                               config.hidden_size));
  add_norms(config, spec, kNorms);
  if (has_experts(config, layer)) {
    add_v3_experts(
        config, spec,
        {.router = "mlp.router.gate", .correction = "mlp", .correction_leaf = "expert_bias"});
  } else {
    add_gated_mlp(config, spec);
  }
  return spec;
}

}  // namespace

const Family kAfmoe = {
    .model_type = "afmoe",
    .description = "Arcee Trinity decoder: gated attention, four norms, experts by sigmoid scores",
    .layer_class = "transformers.models.afmoe.modeling_afmoe.AfmoeDecoderLayer",
    .defaults = {.max_position_embeddings = 16384, .head_dim = 128, .norm_eps = 1e-5},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
