// Mistral 7B and its kin: the Llama decoder without biases, with a window over all layers.
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kDefaultWindow = 4096;

void read_config(ConfigReader& reader, ModelConfig& config) {
  // null switches the window off; a config without the key means the class's default.
  if (!reader.has("sliding_window")) {
    config.sliding_window = kDefaultWindow;
    return;
  }
  config.sliding_window = reader.integer("sliding_window", 1, int64_t{1} << 40);
}

}  // namespace

const Family kMistral = {
    .model_type = "mistral",
    .description = "Mistral decoder: Llama's, with an optional sliding window in every layer",
    .max_position_embeddings = 4096 * 32,
    .key_value_heads = 8,
    .head_dim = std::nullopt,
    .read_config = read_config,
};

}  // namespace am::model
