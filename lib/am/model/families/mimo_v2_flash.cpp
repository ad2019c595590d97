// MiMo-V2-Flash: a sliding window, sinks and twice as many key heads in most layers, values that
// are narrower than keys, and DeepSeek V3's experts without shared ones.
#include <algorithm>
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 129;
constexpr double kTheta = 5e6;
constexpr double kLocalTheta = 1e4;
constexpr double kRotatedPart = 0.334;
constexpr DeepseekDefaults kExperts = {.experts = 256,
                                       .experts_per_token = 8,
                                       .expert_width = 2048,
                                       .shared_experts = 0,
                                       .dense_layers = 1,
                                       .groups = 1,
                                       .topk_groups = 1,
                                       .scale = 1.0,
                                       .shared_key = ""};

// Reads the layers with the sliding window. Without layer_types these are all layers except the
// first and every sixth.
void read_windows(ConfigReader& reader, ModelConfig& config) {
  read_window(reader, config, kWindow);
  const auto before = reader.integer("sliding_window_size", 1, int64_t{1} << 40);
  if (before.has_value()) config.sliding_window = *before + 1;
  if (!reader.raw("layer_types").is_null()) return read_window_layers(reader, config, 1);
  std::vector<bool> windowed;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    windowed.push_back(layer > 0 && (layer + 1) % 6 != 0);
  }
  set_window_layers(config, std::move(windowed));
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  if (config.num_attention_heads % std::max<int64_t>(1, 2 * config.num_key_value_heads) != 0) {
    reader.error(
        "model.heads", "num_key_value_heads",
        cat("layers with a window have 2 * num_key_value_heads = ", 2 * config.num_key_value_heads,
            " key heads, which do not divide num_attention_heads = ", config.num_attention_heads),
        "set num_key_value_heads to a divisor of num_attention_heads / 2");
  }
  read_attention_bias(reader, config);
  config.o_bias = false;
  if (reader.raw("rope_parameters").is_null()) config.rope.rotated_part = kRotatedPart;
  read_layer_ropes(reader, config, kLocalTheta);
  read_windows(reader, config);
  config.value_width = reader.integer("v_head_dim", 1, int64_t{1} << 14).value_or(128);
  read_deepseek_experts(reader, config, kExperts);
  read_mlp_layer_types(reader, config, 1);
  read_normalisation(reader, config, true);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const bool windowed = window_of(config, layer).has_value();
  LayerSpec spec = start_layer(config, layer);
  if (windowed) {
    spec.attention.sinks = true;
    spec.attention.key_heads *= 2;
    spec.modules.push_back(vector(Role::kSinks, "self_attn", "attention_sink_bias",
                                  config.num_attention_heads, Init::kNormal));
  }
  add_attention(config, spec);
  if (has_experts(config, layer)) {
    add_v3_experts(config, spec);
  } else {
    add_gated_mlp(config, spec);
  }
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kMimoV2Flash = {
    .model_type = "mimo_v2_flash",
    .description = "MiMo-V2-Flash decoder: windows with sinks and more key heads, routed experts",
    .layer_class =
        "transformers.models.mimo_v2_flash.modeling_mimo_v2_flash.MiMoV2FlashDecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 4,
                 .head_dim = 192,
                 .norm_eps = 1e-5,
                 .rope_theta = kTheta},
    .runs = false,
    .rotates_part = true,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
