// Bamba and Falcon-H1. Bamba (bamba) has Mamba 2 in most layers and attention in the others. Every
// layer of Falcon-H1 (falcon_h1) has both, side by side.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

void read_biases(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
}

// Reads the keys of Bamba. attn_layer_indices lists the layers with attention.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_biases(reader, config);
  config.rope.rotated_part = 0.5;
  read_mamba2(reader, config);
  config.mixer->layers = read_layer_indices(reader, config, "attn_layer_indices");
  config.mixer->layers.flip();
}

// Reads the keys of Falcon-H1. mamba_d_ssm is the number of Mamba's channels. If this key is null,
// the number is mamba_expand * hidden_size.
void read_parallel(ConfigReader& reader, ModelConfig& config) {
  constexpr int64_t kChannels = 1024;
  read_biases(reader, config);
  read_mamba2(reader, config);
  if (!reader.has("mamba_d_ssm")) {
    config.mixer->inner = kChannels;
  } else {
    config.mixer->inner =
        reader.integer("mamba_d_ssm", 1, kMaxMixerSize).value_or(config.mixer->inner);
  }
  config.mixer->norm = reader.boolean("mamba_rms_norm").value_or(false);
  config.mixer->bias_out = reader.boolean("projectors_bias").value_or(false);
}

void add_rest(const ModelConfig& config, LayerSpec& spec) {
  constexpr std::array<NamedNorm, 2> kNorms = {
      {{Role::kInputNorm, "input_layernorm"}, {Role::kPreFeedForwardNorm, "pre_ff_layernorm"}}};
  add_gated_mlp(config, spec, "feed_forward");
  add_norms(config, spec, kNorms);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const bool mixes = has_mixer(config, layer);
  LayerSpec spec = mixes ? start_mixer_layer(config, layer) : start_layer(config, layer);
  if (mixes) {
    add_mamba2(config, spec, "mamba");
  } else {
    add_attention(config, spec);
  }
  add_rest(config, spec);
  return spec;
}

LayerSpec describe_parallel(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_mamba2(config, spec, "mamba");
  add_attention(config, spec);
  add_rest(config, spec);
  return spec;
}

}  // namespace

const Family kBamba = {
    .model_type = "bamba",
    .description = "Bamba decoder: Mamba 2 and attention, a gated MLP",
    .layer_class = "transformers.models.bamba.modeling_bamba.BambaDecoderLayer",
    .defaults = {.max_position_embeddings = 262144,
                 .key_value_heads = 8,
                 .norm_eps = 1e-5,
                 .pad_token_id = 0},
    .runs = false,
    .rotates_part = true,
    .names = {.norm = "model.final_layernorm"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

const Family kFalconH1 = {
    .model_type = "falcon_h1",
    .description = "Falcon-H1 decoder: Mamba 2 and attention side by side, a gated MLP",
    .layer_class = "transformers.models.falcon_h1.modeling_falcon_h1.FalconH1DecoderLayer",
    .defaults = {.max_position_embeddings = 8192,
                 .key_value_heads = 8,
                 .norm_eps = 1e-5,
                 .pad_token_id = 0},
    .runs = false,
    .names = {.norm = "model.final_layernorm"},
    .read_config = read_parallel,
    .describe_layer = describe_parallel,
};

}  // namespace am::model
