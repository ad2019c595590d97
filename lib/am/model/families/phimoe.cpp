// Phi-3.5-MoE: the Llama decoder with LayerNorm and experts in every layer. The router chooses a
// token's experts one after the other (SparseMixer).
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.head_bias = reader.boolean("lm_head_bias").value_or(false);
  config.norm_bias = true;
  read_window(reader, config, 0);
  read_moe(reader, config,
           {.experts = {"num_local_experts", "num_experts"},
            .default_experts = 16,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 2,
            .width = "intermediate_size",
            .default_width = 6400});
  read_jitter(reader, config);
}

}  // namespace

const Family kPhimoe = {
    .model_type = "phimoe",
    .description = "Phi-3.5-MoE decoder: Llama's with LayerNorm and experts in every layer",
    .layer_class = "transformers.models.phimoe.modeling_phimoe.PhimoeDecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 8,
                 .norm_eps = 1e-5,
                 .rope_theta = 1000000.0},
    .runs = false,
    .norm = NormKind::kLayer,
    .read_config = read_config,
    .describe_layer = mixtral_layer,
};

}  // namespace am::model
