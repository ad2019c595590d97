// OLMo (1B, 7B): the Llama decoder with LayerNorms that have no weights.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qkv_limit = reader.number("clip_qkv", 0.0, 1e6);
}

}  // namespace

const Family kOlmo = {
    .model_type = "olmo",
    .description = "OLMo decoder: Llama's with norms without weights",
    .layer_class = "transformers.models.olmo.modeling_olmo.OlmoDecoderLayer",
    .keys = {.norm_eps = ""},
    .defaults = {.max_position_embeddings = 2048, .norm_eps = 1e-5, .pad_token_id = 1},
    .runs = false,
    .norm = NormKind::kLayer,
    .norm_weights = false,
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
