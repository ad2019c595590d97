// Ministral (8B): Mistral's decoder with a sliding window in the layers that layer_types marks or,
// without this key, in all layers.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 4096;

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_window(reader, config, kWindow);
  if (!reader.raw("layer_types").is_null()) read_window_layers(reader, config, 1);
}

}  // namespace

const Family kMinistral = {
    .model_type = "ministral",
    .description = "Ministral decoder: Mistral's with a sliding window in some layers",
    .layer_class = "transformers.models.ministral.modeling_ministral.MinistralDecoderLayer",
    .defaults = {.max_position_embeddings = 131072, .key_value_heads = 8},
    .runs = false,
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
