// Jais 2: the Llama decoder with LayerNorm and an MLP without a gate. By default, all projections
// in the layers have biases.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config, /*fallback=*/true);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(true);
  config.norm_bias = true;
  config.gated_mlp = false;
}

}  // namespace

const Family kJais2 = {
    .model_type = "jais2",
    .description = "Jais 2 decoder: Llama's with LayerNorm, biases and a plain MLP",
    .layer_class = "transformers.models.jais2.modeling_jais2.Jais2DecoderLayer",
    .keys = {.norm_eps = "layer_norm_eps"},
    .defaults = {.max_position_embeddings = 8192, .norm_eps = 1e-5, .hidden_act = "relu2"},
    .runs = false,
    .norm = NormKind::kLayer,
    .read_config = read_config,
    .describe_layer = plain_layer,
};

}  // namespace am::model
