// Helium: the Llama decoder with a rotary embedding that rotates pairs of adjacent elements.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = reader.boolean("attention_bias").value_or(false);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  config.rope_interleaved = true;
}

}  // namespace

const Family kHelium = {
    .model_type = "helium",
    .description = "Helium decoder: Llama's, rotating pairs of adjacent elements",
    .layer_class = "transformers.models.helium.modeling_helium.HeliumDecoderLayer",
    .defaults = {.max_position_embeddings = 4096,
                 .key_value_heads = 20,
                 .head_dim = 128,
                 .norm_eps = 1e-8,
                 .rope_theta = 100000.0,
                 .pad_token_id = 3},
    .norm = NormKind::kRmsWide,
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
