// Granite 3 (dense): the Llama decoder with factors of embeddings, attention scores, residual
// branches and logits.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  read_granite_factors(reader, config);
}

}  // namespace

const Family kGranite = {
    .model_type = "granite",
    .description =
        "Granite decoder: Llama's, scaling embeddings, attention scores, residual "
        "branches and logits",
    .layer_class = "transformers.models.granite.modeling_granite.GraniteDecoderLayer",
    .defaults = {.max_position_embeddings = 2048},
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
