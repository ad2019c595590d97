// Mixtral: the Mistral decoder with experts instead of the MLP.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_window(reader, config, 0);
  read_mixtral_experts(reader, config);
}

}  // namespace

// mixtral_layer() uses the parameter names of the files on the hub, which store one tensor per
// expert and projection. transformers keeps all experts of a projection in one tensor in memory,
// but saves them under the hub's names.
const Family kMixtral = {
    .model_type = "mixtral",
    .description = "Mixtral decoder: Mistral's with routed experts",
    .layer_class = "transformers.models.mixtral.modeling_mixtral.MixtralDecoderLayer",
    .defaults = {.max_position_embeddings = 4096 * 32,
                 .key_value_heads = 8,
                 .norm_eps = 1e-5,
                 .rope_theta = 1000000.0},
    .read_config = read_config,
    .describe_layer = mixtral_layer,
};

}  // namespace am::model
