// K-EXAONE: EXAONE 4's attention, Llama's norms, and DeepSeek V3's experts.
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 4096;
constexpr int64_t kPattern = 4;

// Reads the keys of K-EXAONE. If the config has a sliding window, the layers without this window
// have no rotary embedding.
void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qk_norm = true;
  read_window(reader, config, kWindow);
  read_window_layers(
      reader, config,
      reader.raw("layer_types").is_null()
          ? reader.integer("sliding_window_pattern", 1, int64_t{1} << 20).value_or(kPattern)
          : kPattern);
  if (config.sliding_window.has_value()) rotate_windowed_layers(config);
  read_deepseek_experts(reader, config,
                        {.experts = 64,
                         .experts_per_token = 8,
                         .expert_width = 1024,
                         .shared_experts = 1,
                         .dense_layers = 1,
                         .groups = 1,
                         .topk_groups = 1,
                         .scale = 2.5,
                         .shared_key = "num_shared_experts"});
  if (!reader.raw("mlp_layer_types").is_null()) read_mlp_layer_types(reader, config, 0);
  read_normalisation(reader, config, true);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  if (has_experts(config, layer)) {
    add_v3_experts(config, spec, {.correction = "mlp"});
  } else {
    add_gated_mlp(config, spec);
  }
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kExaoneMoe = {
    .model_type = "exaone_moe",
    .description = "K-EXAONE decoder: q_norm and k_norm, DeepSeek V3's experts",
    .layer_class = "transformers.models.exaone_moe.modeling_exaone_moe.ExaoneMoeDecoderLayer",
    .defaults = {.max_position_embeddings = 2048,
                 .key_value_heads = 32,
                 .norm_eps = 1e-5,
                 .pad_token_id = 0},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
