// EXAONE 4: norms after attention and MLP, and over each query and key head. If the config has a
// sliding window, three of four layers use the window and RoPE, and the others use neither.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 4096;
constexpr int64_t kPattern = 4;

// Reads the keys of EXAONE 4. sliding_window_pattern is read only if the config has no layer_types.
// In configs with both keys, the pattern may be a string, for example "LLLG".
void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qk_norm = true;
  read_window(reader, config, kWindow);
  int64_t period = kPattern;
  if (reader.raw("layer_types").is_null()) {
    period = reader.integer("sliding_window_pattern", 1, int64_t{1} << 20).value_or(kPattern);
  }
  read_window_layers(reader, config, period);
  if (config.sliding_window.has_value()) rotate_windowed_layers(config);
}

}  // namespace

const Family kExaone4 = {
    .model_type = "exaone4",
    .description = "EXAONE 4 decoder: norms after attention and MLP, q_norm and k_norm",
    .layer_class = "transformers.models.exaone4.modeling_exaone4.Exaone4DecoderLayer",
    .defaults = {.max_position_embeddings = 2048, .key_value_heads = 32, .norm_eps = 1e-5},
    .read_config = read_config,
    .describe_layer = post_norm_layer,
};

}  // namespace am::model
