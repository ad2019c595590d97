// Mamba, Falcon-Mamba and Mamba 2: decoders whose layers consist of one norm and one mixer, without
// attention and without a feed-forward.
#include <utility>

#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

MixerConfig read_mixer(ConfigReader& reader, const ModelConfig& config, int64_t state) {
  MixerConfig mixer;
  mixer.state = reader.integer("state_size", 1, kMaxMixerSize).value_or(state);
  mixer.kernel = reader.integer("conv_kernel", 1, kMaxMixerSize).value_or(4);
  mixer.inner = reader.integer("expand", 1, kMaxMixerSize).value_or(2) * config.hidden_size;
  mixer.conv_bias = reader.boolean("use_conv_bias").value_or(true);
  mixer.bias_in = mixer.bias_out = reader.boolean("use_bias").value_or(false);
  mixer.layers.assign(static_cast<size_t>(config.num_hidden_layers), true);
  return mixer;
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.hidden_norms = 1;
  MixerConfig mixer = read_mixer(reader, config, 16);
  // intermediate_size, if present, is the number of channels instead of expand * hidden_size. Mamba
  // 2 ignores this key.
  mixer.inner = reader.integer("intermediate_size", 1, kMaxMixerSize).value_or(mixer.inner);
  mixer.rank = read_mamba_rank(reader, config, "time_step_rank");
  config.mixer = std::move(mixer);
}

void read_second(ConfigReader& reader, ModelConfig& config) {
  config.hidden_norms = 1;
  MixerConfig mixer = read_mixer(reader, config, 128);
  mixer.heads = reader.integer("num_heads", 1, kMaxMixerHeads).value_or(128);
  mixer.groups = reader.integer("n_groups", 1, kMaxMixerHeads).value_or(8);
  mixer.norm = true;
  config.mixer = std::move(mixer);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_mixer_layer(config, layer);
  spec.modules.push_back(norm(config, Role::kInputNorm, "norm", config.hidden_size));
  add_mamba(config, spec, "mixer");
  return spec;
}

LayerSpec describe_second(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_mixer_layer(config, layer);
  spec.modules.push_back(norm(config, Role::kInputNorm, "norm", config.hidden_size));
  add_mamba2(config, spec, "mixer");
  return spec;
}

constexpr ConfigKeys kKeys = {.intermediate_size = "",
                              .heads = "",
                              .key_value_heads = "",
                              .head_dim = "",
                              .positions = "",
                              .norm_eps = "layer_norm_epsilon"};

// Returns a family whose layers have the mixer of Mamba 1.
constexpr Family first_generation(std::string_view model_type, std::string_view description,
                                  std::string_view layer_class) {
  return {.model_type = model_type,
          .description = description,
          .layer_class = layer_class,
          .keys = kKeys,
          .defaults = {.norm_eps = 1e-5,
                       .initializer_range = 0.1,
                       .tie_word_embeddings = true,
                       .pad_token_id = 0,
                       .intermediate_ratio = 1},
          .runs = false,
          .rotary = false,
          .pads_embedding = false,
          .names = kMambaNames,
          .read_config = read_config,
          .describe_layer = describe_layer};
}

}  // namespace

const Family kMamba = first_generation("mamba", "Mamba decoder: one mixer per layer, no attention",
                                       "transformers.models.mamba.modeling_mamba.MambaBlock");

constinit const Family kFalconMamba =
    first_generation("falcon_mamba", "Falcon-Mamba decoder: Mamba's",
                     "transformers.models.falcon_mamba.modeling_falcon_mamba.FalconMambaBlock");

const Family kMamba2 = {
    .model_type = "mamba2",
    .description = "Mamba 2 decoder: one mixer per layer, no attention",
    .layer_class = "transformers.models.mamba2.modeling_mamba2.Mamba2Block",
    .keys = kKeys,
    .defaults = {.norm_eps = 1e-5,
                 .initializer_range = 0.1,
                 .pad_token_id = 1,
                 .intermediate_ratio = 1},
    .runs = false,
    .rotary = false,
    .pads_embedding = false,
    .names = kMambaNames,
    .read_config = read_second,
    .describe_layer = describe_second,
};

}  // namespace am::model
