// SmolLM3: the Llama decoder, without RoPE in every fourth layer.
#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kNoRopeInterval = 4;

// Reads which layers use RoPE from no_rope_layers, a list with one entry per layer. Despite the
// key's name, 1 means that the layer uses RoPE. Entries beyond the number of layers are ignored.
// Without the key, every `interval`-th layer has no RoPE.
void read_rotated_layers(ConfigReader& reader, int64_t interval, ModelConfig& config) {
  const Json& listed = reader.raw("no_rope_layers");
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  const bool wrong = !listed.is_null() && (!listed.is_array() || listed.size() < layers);
  if (wrong) {
    reader.error("model.type", "no_rope_layers",
                 cat("no_rope_layers must be a list of ", layers, " numbers, one per layer"),
                 "write 1 for a layer with rotary embedding, and 0 for a layer without");
  }
  for (size_t layer = 0; layer < layers; ++layer) {
    const bool fourth = (static_cast<int64_t>(layer) + 1) % interval == 0;
    const bool follows = listed.is_null() || wrong;
    config.rotated_layers.push_back(follows ? !fourth
                                            : listed[layer] != 0 && listed[layer] != false);
  }
}

// Reads the keys of SmolLM3. If use_sliding_window is true, the window applies to the layers that
// layer_types marks or, without this key, to the layers without RoPE.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  const int64_t interval =
      reader.integer("no_rope_layer_interval", 1, int64_t{1} << 20).value_or(kNoRopeInterval);
  read_rotated_layers(reader, interval, config);
  if (!reader.boolean("use_sliding_window").value_or(false)) return;
  read_window(reader, config, 0);
  if (!reader.raw("layer_types").is_null()) {
    read_window_layers(reader, config, 1);
    return;
  }
  std::vector<bool> windowed;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    windowed.push_back(!config.rotated_layers[static_cast<size_t>(layer)]);
  }
  set_window_layers(config, std::move(windowed));
}

}  // namespace

const Family kSmollm3 = {
    .model_type = "smollm3",
    .description = "SmolLM3 decoder: Llama's, some layers without rotary embedding",
    .layer_class = "transformers.models.smollm3.modeling_smollm3.SmolLM3DecoderLayer",
    .defaults = {.max_position_embeddings = 32768,
                 .key_value_heads = 4,
                 .rope_theta = 2000000.0,
                 .tie_word_embeddings = true,
                 .pad_token_id = 128004},
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
