// Laguna: Qwen3's attention with a gate of attention's output, and DeepSeek V3's experts with one
// shared expert.
#include <algorithm>

#include "am/base/json.h"
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 512;
constexpr int64_t kSharedWidth = 512;

// Adds an error if the layers have different numbers of heads, which cannot be planned.
void check_heads(ConfigReader& reader, const ModelConfig& config) {
  constexpr std::string_view kKey = "num_attention_heads_per_layer";
  const Json& heads = reader.raw(kKey);
  const bool equal = std::all_of(heads.begin(), heads.end(), [&](const Json& each) {
    return each == config.num_attention_heads;
  });
  if (heads.is_null() || (heads.is_array() && equal)) return;
  reader.error("model.value", kKey, "layers with different numbers of heads are not supported",
               "set each of its entries to num_attention_heads");
}

// Reads the key gating. If the key is missing, null, true or "per-head", one gate scales each head;
// otherwise each element of a head has a gate.
void read_gating(ConfigReader& reader, ModelConfig& config) {
  const Json& gating = reader.raw("gating");
  config.gates_heads = gating.is_null() || gating == true || gating == "per-head";
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  check_heads(reader, config);
  read_gating(reader, config);
  if (!reader.raw("layer_types").is_null()) {
    read_window(reader, config, kWindow);
    read_window_layers(reader, config, 1);
  }
  read_layer_ropes(reader, config, 10000.0);
  read_moe(reader, config,
           {.experts = {"num_experts"},
            .default_experts = 256,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 8,
            .width = "moe_intermediate_size",
            .default_width = 512});
  read_mlp_layer_types(reader, config, 1);
  const int64_t shared =
      reader.integer("shared_expert_intermediate_size", 1, kMaxWidth).value_or(kSharedWidth);
  const double scale = read_switchable(reader, "moe_routed_scaling_factor", 1.0).value_or(1.0);
  if (!config.moe.has_value()) return;
  config.moe->shared_width = shared;
  config.moe->normalise = true;
  config.moe->scale = scale;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const int64_t width = config.gates_heads ? 1 : config.head_dim;
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  spec.modules.push_back(
      other("self_attn.g_proj", config.num_attention_heads * width, config.hidden_size));
  if (has_experts(config, layer)) {
    add_v3_experts(config, spec, {.correction = "mlp.experts", .shared = "mlp.shared_expert"});
  } else {
    add_gated_mlp(config, spec);
  }
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kLaguna = {
    .model_type = "laguna",
    .description = "Laguna decoder: gated attention, DeepSeek V3's experts",
    .layer_class = "transformers.models.laguna.modeling_laguna.LagunaDecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 8,
                 .head_dim = 128,
                 .rope_theta = 500000.0},
    .runs = false,
    .rotates_part = true,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
