// MiniMax-Text-01 and MiniMax-M1: lightning attention and attention in alternate layers, and
// Mixtral's experts.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

// Reads the keys of MiniMax. Without layer_types, every second layer has lightning attention.
// Lightning attention has num_attention_heads heads of width head_dim.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_window(reader, config, 0);
  read_mixtral_experts(reader, config);
  config.mixer.emplace();
  read_mixer_layers(reader, config, "layer_types", {"linear_attention"}, 2);
  if (reader.raw("layer_types").is_null()) config.mixer->layers.flip();
}

// Adds lightning attention: a fused matrix, a norm over all heads, a gate of the output.
void add_lightning_attention(const ModelConfig& config, LayerSpec& spec) {
  const int64_t hidden = config.hidden_size;
  const int64_t width = config.num_attention_heads * config.head_dim;
  spec.modules.push_back(other_vector("self_attn.norm", width));
  spec.modules.push_back(other("self_attn.qkv_proj", 3 * width, hidden));
  spec.modules.push_back(other("self_attn.out_proj", hidden, width));
  spec.modules.push_back(other("self_attn.output_gate", width, hidden));
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  if (!has_mixer(config, layer)) return mixtral_layer(config, layer);
  LayerSpec spec = start_mixer_layer(config, layer);
  add_lightning_attention(config, spec);
  add_mixtral_experts(config, spec);
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kMinimax = {
    .model_type = "minimax",
    .description = "MiniMax-Text-01 decoder: lightning attention and attention, routed experts",
    .layer_class = "transformers.models.minimax.modeling_minimax.MiniMaxDecoderLayer",
    .defaults = {.max_position_embeddings = 4096 * 32,
                 .key_value_heads = 8,
                 .norm_eps = 1e-5,
                 .rope_theta = 1000000.0},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
