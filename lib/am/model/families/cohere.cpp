// Cohere's Command R (cohere) and Command R7B and A (cohere2): attention and a gated MLP in
// parallel after one LayerNorm without bias, and scaled logits.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kLogitScale = 0.0625;
constexpr int64_t kWindow = 4096;
constexpr int64_t kPattern = 4;

void read_parallel(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.parallel_block = true;
  config.hidden_norms = 1;
  config.rope_interleaved = true;
  config.logit_scale = read_switchable(reader, "logit_scale", kLogitScale).value_or(1.0);
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_parallel(reader, config);
  require_boolean(reader, "use_qk_norm", false,
                  "Cohere's norms with weights of their own for every head are not supported");
}

// Reads the keys of Cohere2. Only layers with the sliding window have a rotary embedding; without a
// window, no layer has a rotary embedding.
void read_windowed(ConfigReader& reader, ModelConfig& config) {
  read_parallel(reader, config);
  read_window(reader, config, kWindow);
  read_window_layers(
      reader, config,
      reader.integer("sliding_window_pattern", 1, int64_t{1} << 20).value_or(kPattern));
  rotate_windowed_layers(config);
}

constexpr ConfigKeys kKeys = {.norm_eps = "layer_norm_eps"};
constexpr ConfigDefaults cohere_defaults(double theta) {
  return {.max_position_embeddings = 8192,
          .norm_eps = 1e-5,
          .rope_theta = theta,
          .tie_word_embeddings = true,
          .pad_token_id = 0};
}

}  // namespace

const Family kCohere = {
    .model_type = "cohere",
    .description = "Command R decoder: attention and MLP side by side after one LayerNorm",
    .layer_class = "transformers.models.cohere.modeling_cohere.CohereDecoderLayer",
    .keys = kKeys,
    .defaults = cohere_defaults(500000.0),
    .norm = NormKind::kLayer,
    .read_config = read_config,
    .describe_layer = parallel_layer,
};

const Family kCohere2 = {
    .model_type = "cohere2",
    .description = "Command A decoder: Command R's, three of four layers with a window and RoPE",
    .layer_class = "transformers.models.cohere2.modeling_cohere2.Cohere2DecoderLayer",
    .keys = kKeys,
    .defaults = cohere_defaults(10000.0),
    .norm = NormKind::kLayer,
    .read_config = read_windowed,
    .describe_layer = parallel_layer,
};

}  // namespace am::model
