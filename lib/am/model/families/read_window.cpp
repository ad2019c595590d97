// Reads sliding windows. Mistral's configs have one key for the window. Qwen's configs also have a
// switch and the first layer with the window. Configs of Gemma and gpt-oss have a pattern of
// layers.
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"

namespace am::model {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 40;
constexpr int64_t kQwenWindow = 4096;
constexpr int64_t kQwenMaxWindowLayers = 28;

// Returns, for each layer, whether layer_types marks it "sliding_attention". Returns nothing if the
// key is absent, and adds an error and returns nothing if the key is invalid.
std::optional<std::vector<bool>> read_layer_types(ConfigReader& reader, const ModelConfig& config) {
  const Json& types = reader.raw("layer_types");
  if (types.is_null()) return std::nullopt;
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  if (!types.is_array() || types.size() != layers) {
    reader.error("model.type", "layer_types",
                 cat("layer_types must be a list of ", layers, " texts, one for each layer",
                     types.is_array() ? cat(", but it has ", types.size()) : std::string()));
    return std::nullopt;
  }
  std::vector<bool> windowed;
  for (size_t i = 0; i < layers; ++i) {
    const bool sliding = types[i] == "sliding_attention";
    if (!sliding && types[i] != "full_attention") {
      reader.error("model.value", "layer_types",
                   cat("layer_types[", i, "] = ", types[i].dump(), " is not known"),
                   "known: \"full_attention\", \"sliding_attention\"");
      return std::nullopt;
    }
    windowed.push_back(sliding);
  }
  return windowed;
}

}  // namespace

void set_window_layers(ModelConfig& config, std::vector<bool> windowed) {
  size_t first = 0;
  while (first < windowed.size() && !windowed[first]) ++first;
  size_t last = first;
  while (last < windowed.size() && windowed[last]) ++last;
  config.window_first_layer = static_cast<int64_t>(first);
  config.window_layers.clear();
  if (last < windowed.size()) config.window_layers = std::move(windowed);
}

void read_window(ConfigReader& reader, ModelConfig& config, int64_t fallback) {
  if (reader.has("sliding_window")) {
    config.sliding_window = reader.integer("sliding_window", 1, kMaxWindow);
  } else if (fallback > 0) {
    config.sliding_window = fallback;
  }
}

void read_window_layers(ConfigReader& reader, ModelConfig& config, int64_t period) {
  if (auto types = read_layer_types(reader, config)) {
    set_window_layers(config, std::move(*types));
    return;
  }
  std::vector<bool> windowed;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    windowed.push_back((layer + 1) % period != 0);
  }
  set_window_layers(config, std::move(windowed));
}

void read_late_window(ConfigReader& reader, ModelConfig& config, int64_t window,
                      int64_t first_layer) {
  read_window(reader, config, window);
  if (auto types = read_layer_types(reader, config)) {
    set_window_layers(config, std::move(*types));
    return;
  }
  config.window_first_layer =
      reader.integer("max_window_layers", 0, int64_t{1} << 20).value_or(first_layer);
}

void read_qwen_window(ConfigReader& reader, ModelConfig& config) {
  if (!reader.boolean("use_sliding_window").value_or(false)) return;
  read_late_window(reader, config, kQwenWindow, kQwenMaxWindowLayers);
}

}  // namespace am::model
