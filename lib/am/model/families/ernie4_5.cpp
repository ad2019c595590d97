// ERNIE 4.5 (dense): the Llama decoder with a rotary embedding that rotates pairs of adjacent
// elements.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  const bool bias = reader.boolean("use_bias").value_or(false);
  config.qkv_bias = config.o_bias = config.mlp_bias = bias;
  config.rope_interleaved = true;
}

}  // namespace

const Family kErnie45 = {
    .model_type = "ernie4_5",
    .description = "ERNIE 4.5 decoder: Llama's, rotating pairs of adjacent elements",
    .layer_class = "transformers.models.ernie4_5.modeling_ernie4_5.Ernie4_5DecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 2,
                 .head_dim = 128,
                 .norm_eps = 1e-5,
                 .rope_theta = 500000.0,
                 .tie_word_embeddings = true,
                 .pad_token_id = 0},
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
