// Solar Open: Llama's attention, and DeepSeek V3's experts in every layer.
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

// Reads the keys of Solar Open. attention_bias does not apply to o_proj, which never has a bias.
void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = reader.boolean("attention_bias").value_or(false);
  read_deepseek_experts(reader, config,
                        {.experts = 128,
                         .experts_per_token = 8,
                         .expert_width = 1280,
                         .shared_experts = 1,
                         .dense_layers = 0,
                         .groups = 1,
                         .topk_groups = 1,
                         .scale = 1.0});
  if (config.moe.has_value()) set_dense_layers(config, 0);
  read_normalisation(reader, config, true);
}

}  // namespace

const Family kSolarOpen = {
    .model_type = "solar_open",
    .description = "Solar Open decoder: DeepSeek V3's experts in every layer",
    .layer_class = "transformers.models.solar_open.modeling_solar_open.SolarOpenDecoderLayer",
    .keys = {.intermediate_size = ""},
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 8,
                 .head_dim = 128,
                 .norm_eps = 1e-5,
                 .rope_theta = 1000000.0,
                 .intermediate_ratio = 1},
    .runs = false,
    .read_config = read_config,
    .describe_layer = deepseek_v3_experts_layer,
};

}  // namespace am::model
