#include "am/base/text.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kDefaultWindow = 4096;
constexpr int64_t kDefaultMaxWindowLayers = 28;

// `layer_types` as the first layer that slides. The runtime knows full layers followed by sliding
// ones, which is what max_window_layers can say too; another mixture is an error.
void read_layer_types(ConfigReader& reader, ModelConfig& config) {
  const Json& types = reader.raw("layer_types");
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  if (!types.is_array() || types.size() != layers) {
    reader.error("model.type", "layer_types",
                 cat("layer_types must be a list of ", layers, " texts, one for each layer"));
    return;
  }
  config.window_first_layer = config.num_hidden_layers;
  for (size_t i = 0; i < layers; ++i) {
    const bool sliding = types[i] == "sliding_attention";
    if (!sliding && types[i] != "full_attention") {
      reader.error("model.value", "layer_types",
                   cat("layer_types[", i, "] = ", types[i].dump(), " is not known"),
                   "known: \"full_attention\", \"sliding_attention\"");
      return;
    }
    const auto layer = static_cast<int64_t>(i);
    if (sliding && config.window_first_layer > layer) config.window_first_layer = layer;
    if (!sliding && config.window_first_layer < layer) {
      reader.error("model.value", "layer_types",
                   cat("layer ", i, " has full attention after a sliding layer"),
                   "full layers first, then sliding ones, is the order that is understood");
      return;
    }
  }
}

}  // namespace

void read_qwen_window(ConfigReader& reader, ModelConfig& config) {
  if (!reader.boolean("use_sliding_window").value_or(false)) return;
  if (!reader.has("sliding_window")) {
    config.sliding_window = kDefaultWindow;
  } else {
    config.sliding_window = reader.integer("sliding_window", 1, int64_t{1} << 40);
  }
  if (!reader.raw("layer_types").is_null()) {
    read_layer_types(reader, config);
    return;
  }
  config.window_first_layer =
      reader.integer("max_window_layers", 0, int64_t{1} << 20).value_or(kDefaultMaxWindowLayers);
}

}  // namespace am::model
