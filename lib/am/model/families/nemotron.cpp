// Nemotron-4 and Minitron: LayerNorm that multiplies by 1 + weight, RoPE over a part of each head,
// and an MLP without a gate, whose activation is the square of ReLU.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kRotatedPart = 0.5;

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  config.norm_bias = true;
  config.gated_mlp = false;
  set_rotated_part(reader, config, kRotatedPart);
}

}  // namespace

const Family kNemotron = {
    .model_type = "nemotron",
    .description = "Nemotron-4 decoder: LayerNorm, partly rotated attention, squared ReLU",
    .layer_class = "transformers.models.nemotron.modeling_nemotron.NemotronDecoderLayer",
    .keys = {.norm_eps = "norm_eps"},
    .defaults = {.max_position_embeddings = 4096,
                 .norm_eps = 1e-5,
                 .initializer_range = 0.0134,
                 .hidden_act = "relu2"},
    .rotates_part = true,
    .norm = NormKind::kLayerPlusOne,
    .read_config = read_config,
    .describe_layer = plain_layer,
};

}  // namespace am::model
