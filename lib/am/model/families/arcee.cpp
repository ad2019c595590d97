// Arcee: the Llama decoder with an MLP without a gate, whose activation is the square of ReLU.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  config.gated_mlp = false;
}

}  // namespace

const Family kArcee = {
    .model_type = "arcee",
    .description = "Arcee decoder: Llama's with a plain MLP and squared ReLU",
    .layer_class = "transformers.models.arcee.modeling_arcee.ArceeDecoderLayer",
    .defaults = {.max_position_embeddings = 4096, .norm_eps = 1e-5, .hidden_act = "relu2"},
    .read_config = read_config,
    .describe_layer = plain_layer,
};

}  // namespace am::model
