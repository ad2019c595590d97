// Mistral 7B and similar models: the Llama decoder without biases, with an optional sliding window
// in all layers.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kDefaultWindow = 4096;

// Reads the window. If sliding_window is null, there is no window; if the key is missing, the
// default of transformers' class applies.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_window(reader, config, kDefaultWindow);
}

}  // namespace

const Family kMistral = {
    .model_type = "mistral",
    .description = "Mistral decoder: Llama's, with an optional sliding window in every layer",
    .layer_class = "transformers.models.mistral.modeling_mistral.MistralDecoderLayer",
    .defaults = {.max_position_embeddings = 4096 * 32,
                 .key_value_heads = 8,
                 .vocab_size = 32000,
                 .hidden_size = 4096,
                 .intermediate_size = 14336,
                 .layers = 32,
                 .heads = 32},
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
