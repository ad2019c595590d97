// Mellum: Qwen3-MoE's decoder with a sliding window in some layers.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 1024;

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  if (!reader.raw("layer_types").is_null()) {
    read_window(reader, config, kWindow);
    read_window_layers(reader, config, 1);
  }
  read_layer_ropes(reader, config, 10000.0);
  read_moe(reader, config,
           {.experts = {"num_local_experts", "num_experts"},
            .default_experts = 64,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 8,
            .width = "moe_intermediate_size",
            .default_width = 896});
  read_mlp_layer_types(reader, config, 0);
  read_normalisation(reader, config, true);
}

}  // namespace

const Family kMellum = {
    .model_type = "mellum",
    .description = "Mellum decoder: Qwen3-MoE's with a sliding window in some layers",
    .layer_class = "transformers.models.mellum.modeling_mellum.MellumDecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 4,
                 .head_dim = 128,
                 .rope_theta = 500000.0},
    .runs = false,
    .read_config = read_config,
    .describe_layer = expert_layer,
};

}  // namespace am::model
