// Qwen3-Next and Qwen3.5: linear attention in most layers, gated attention in the others, and
// Qwen2-MoE's experts (Qwen3-Next, Qwen3.5-MoE) or a dense MLP (Qwen3.5).
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

constexpr int64_t kSharedWidth = 512;
constexpr double kRotatedPart = 0.25;

void read_attention(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  set_rotated_part(reader, config, kRotatedPart);
  read_delta_net(reader, config);
}

void read_experts(ConfigReader& reader, ModelConfig& config, int64_t experts, int64_t taken,
                  bool may_be_dense = false) {
  read_moe(reader, config,
           {.experts = {"num_experts"},
            .default_experts = experts,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = taken,
            .width = "moe_intermediate_size",
            .default_width = 512},
           may_be_dense);
  const int64_t shared =
      reader.integer("shared_expert_intermediate_size", 1, kMaxWidth).value_or(kSharedWidth);
  if (!config.moe.has_value()) return;
  config.moe->shared_width = shared;
  config.moe->shared_gate = true;
}

void read_next(ConfigReader& reader, ModelConfig& config) {
  read_attention(reader, config);
  read_experts(reader, config, 512, 10, /*may_be_dense=*/true);
  read_normalisation(reader, config, true);
  read_sparse_layers(reader, config);
}

void read_moe_config(ConfigReader& reader, ModelConfig& config) {
  read_attention(reader, config);
  read_experts(reader, config, 256, 8);
  if (config.moe.has_value()) config.moe->normalise = true;
}

// Adds the feed-forward and the norms of a layer.
void add_rest(const ModelConfig& config, int64_t layer, LayerSpec& spec) {
  if (has_experts(config, layer)) {
    add_router(config, spec, "mlp.gate");
    add_experts(config, spec, "mlp.experts");
    add_shared_experts(config, spec, "mlp.shared_expert");
    spec.modules.push_back(
        matrix(Role::kSharedWeigher, "mlp.shared_expert_gate", 1, config.hidden_size));
  } else {
    add_gated_mlp(config, spec);
  }
  add_norms(config, spec, kLlamaNorms);
}

LayerSpec attention_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_gated_attention(config, spec);
  add_rest(config, layer, spec);
  return spec;
}

LayerSpec describe_next(const ModelConfig& config, int64_t layer) {
  if (!has_mixer(config, layer)) return attention_layer(config, layer);
  const MixerConfig& mixer = *config.mixer;
  const int64_t hidden = config.hidden_size;
  const int64_t width = mixer.key_heads * mixer.key_width + mixer.heads * mixer.width;
  LayerSpec spec = start_mixer_layer(config, layer);
  add_delta_net(config, spec);
  spec.modules.push_back(other("linear_attn.in_proj_qkvz", 2 * width, hidden));
  spec.modules.push_back(other("linear_attn.in_proj_ba", 2 * mixer.heads, hidden));
  add_rest(config, layer, spec);
  return spec;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  if (!has_mixer(config, layer)) return attention_layer(config, layer);
  const MixerConfig& mixer = *config.mixer;
  const int64_t hidden = config.hidden_size;
  const int64_t values = mixer.heads * mixer.width;
  const int64_t keys = mixer.key_heads * mixer.key_width;
  LayerSpec spec = start_mixer_layer(config, layer);
  add_delta_net(config, spec);
  spec.modules.push_back(other("linear_attn.in_proj_qkv", 2 * keys + values, hidden));
  spec.modules.push_back(other("linear_attn.in_proj_z", values, hidden));
  spec.modules.push_back(other("linear_attn.in_proj_b", mixer.heads, hidden));
  spec.modules.push_back(other("linear_attn.in_proj_a", mixer.heads, hidden));
  add_rest(config, layer, spec);
  return spec;
}

}  // namespace

const Family kQwen3Next = {
    .model_type = "qwen3_next",
    .description = "Qwen3-Next decoder: linear and gated attention, routed and shared experts",
    .layer_class = "transformers.models.qwen3_next.modeling_qwen3_next.Qwen3NextDecoderLayer",
    .defaults = {.max_position_embeddings = 32768, .key_value_heads = 2, .head_dim = 256},
    .runs = false,
    .rotates_part = true,
    .norm = NormKind::kRmsPlusOne,
    .read_config = read_next,
    .describe_layer = describe_next,
};

const Family kQwen35Text = {
    .model_type = "qwen3_5_text",
    .description = "Qwen3.5 decoder: linear and gated attention, a dense MLP",
    .layer_class = "transformers.models.qwen3_5.modeling_qwen3_5.Qwen3_5DecoderLayer",
    .defaults = {.max_position_embeddings = 32768,
                 .key_value_heads = 4,
                 .head_dim = 256,
                 .vocab_size = 248320,
                 .hidden_size = 4096,
                 .intermediate_size = 12288,
                 .layers = 32,
                 .heads = 16},
    .runs = false,
    .rotates_part = true,
    .norm = NormKind::kRmsPlusOne,
    .read_config = read_attention,
    .describe_layer = describe_layer,
};

const Family kQwen35MoeText = {
    .model_type = "qwen3_5_moe_text",
    .description = "Qwen3.5-MoE decoder: linear and gated attention, routed and shared experts",
    .layer_class = "transformers.models.qwen3_5_moe.modeling_qwen3_5_moe.Qwen3_5MoeDecoderLayer",
    .keys = {.intermediate_size = ""},
    .defaults = {.max_position_embeddings = 32768,
                 .key_value_heads = 2,
                 .head_dim = 256,
                 .intermediate_ratio = 1,
                 .vocab_size = 248320,
                 .hidden_size = 2048,
                 .layers = 40,
                 .heads = 16},
    .runs = false,
    .rotates_part = true,
    .norm = NormKind::kRmsPlusOne,
    .read_config = read_moe_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
