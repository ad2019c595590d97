#include "am/model/families/mixers.h"

#include <algorithm>
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"

namespace am::model {
namespace {

int64_t size_or(ConfigReader& reader, std::string_view key, int64_t fallback) {
  return reader.integer(key, 1, kMaxMixerSize).value_or(fallback);
}

}  // namespace

void read_mixer_layers(ConfigReader& reader, ModelConfig& config, std::string_view key,
                       std::initializer_list<std::string_view> mixer, int64_t period) {
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  const Json& types = reader.raw(key);
  std::vector<bool>& mixes = config.mixer->layers;
  mixes.clear();
  if (types.is_null()) {
    for (size_t i = 0; i < layers; ++i) {
      mixes.push_back((static_cast<int64_t>(i) + 1) % period != 0);
    }
    return;
  }
  bool fits = types.is_array() && types.size() == layers;
  for (const Json& type : types) {
    const bool is_mixer = std::any_of(mixer.begin(), mixer.end(),
                                      [&](std::string_view name) { return type == name; });
    fits = fits && (is_mixer || type == "full_attention" || type == "attention");
    mixes.push_back(is_mixer);
  }
  if (fits) return;
  reader.error("model.value", key,
               cat(key, " must be a list of ", layers, " texts, one for each layer"),
               cat("known: \"full_attention\", \"", *mixer.begin(), "\""));
}

bool has_mixer(const ModelConfig& config, int64_t layer) {
  const auto at = static_cast<size_t>(layer);
  return config.mixer.has_value() && at < config.mixer->layers.size() && config.mixer->layers[at];
}

void read_delta_net(ConfigReader& reader, ModelConfig& config, const DeltaNetDefaults& defaults) {
  const auto heads = [&](std::string_view key, int64_t fallback) {
    return reader.integer(key, 1, kMaxMixerHeads).value_or(fallback);
  };
  MixerConfig mixer;
  mixer.kernel = size_or(reader, "linear_conv_kernel_dim", 4);
  mixer.key_heads = heads("linear_num_key_heads", defaults.key_heads);
  mixer.heads = heads("linear_num_value_heads", defaults.heads);
  // After an error in the config, either size may be 0.
  const bool is_known = config.hidden_size > 0 && mixer.key_heads > 0;
  const int64_t three_quarters = is_known ? 3 * config.hidden_size / (4 * mixer.key_heads) : 1;
  mixer.key_width = size_or(reader, "linear_key_head_dim",
                            defaults.key_width > 0 ? defaults.key_width : three_quarters);
  if (mixer.key_width == 0) {
    reader.error("model.value", "hidden_size",
                 cat("hidden_size = ", config.hidden_size, " is too small for ", mixer.key_heads,
                     " heads of linear attention"),
                 "set linear_key_head_dim");
  }
  mixer.width = size_or(reader, "linear_value_head_dim",
                        defaults.width > 0 ? defaults.width : 2 * mixer.key_width);
  config.mixer = std::move(mixer);
  const int64_t period = reader.integer("full_attention_interval", 1, kMostLayers).value_or(4);
  read_mixer_layers(reader, config, "layer_types", {"linear_attention"}, period);
}

int64_t read_mamba_rank(ConfigReader& reader, const ModelConfig& config, std::string_view key) {
  constexpr int64_t kDivisor = 16;
  const int64_t usual = (config.hidden_size + kDivisor - 1) / kDivisor;
  return reader.raw(key) == "auto" ? usual : size_or(reader, key, usual);
}

void read_mamba2(ConfigReader& reader, ModelConfig& config) {
  MixerConfig mixer;
  mixer.heads = reader.integer("mamba_n_heads", 1, kMaxMixerHeads).value_or(128);
  mixer.groups = reader.integer("mamba_n_groups", 1, kMaxMixerHeads).value_or(1);
  mixer.state = size_or(reader, "mamba_d_state", 256);
  mixer.kernel = size_or(reader, "mamba_d_conv", 4);
  mixer.inner = size_or(reader, "mamba_expand", 2) * config.hidden_size;
  // transformers' class treats null as false, and a missing key as true.
  constexpr std::string_view kConvBias = "mamba_conv_bias";
  mixer.conv_bias = reader.boolean(kConvBias).value_or(!reader.has(kConvBias));
  mixer.bias_in = mixer.bias_out = reader.boolean("mamba_proj_bias").value_or(false);
  mixer.norm = true;
  config.mixer = std::move(mixer);
}

LayerSpec start_mixer_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  // Sets a head's widths although the layer has no heads, because other code divides by the widths.
  spec.attention = {.qk_width = config.head_dim, .v_width = config.head_dim, .rope = -1};
  return spec;
}

void add_delta_net(const ModelConfig& config, LayerSpec& layer, std::string_view norm,
                   std::string_view output) {
  const MixerConfig& mixer = *config.mixer;
  const int64_t values = mixer.heads * mixer.width;
  const int64_t keys = mixer.key_heads * mixer.key_width;
  layer.modules.push_back(other_vector("linear_attn", mixer.heads, "dt_bias"));
  layer.modules.push_back(other_vector("linear_attn", mixer.heads, "A_log"));
  add_convolution(layer, "linear_attn.conv1d", 2 * keys + values, mixer.kernel);
  layer.modules.push_back(other_vector(norm, mixer.width));
  layer.modules.push_back(other(output, config.hidden_size, values));
}

void add_gated_attention(const ModelConfig& config, LayerSpec& layer) {
  const size_t first = layer.modules.size();
  add_attention(config, layer);
  layer.attention.gated = true;
  ModuleSpec& query = layer.modules[first];
  query.out *= 2;
  query.grain *= 2;
}

void add_mamba(const ModelConfig& config, LayerSpec& layer, std::string_view prefix) {
  const MixerConfig& mixer = *config.mixer;
  const int64_t hidden = config.hidden_size;
  layer.modules.push_back(other(prefix, mixer.inner, mixer.state));
  layer.modules.back().leaf = "A_log";
  layer.modules.push_back(other_vector(prefix, mixer.inner, "D"));
  add_convolution(layer, cat(prefix, ".conv1d"), mixer.inner, mixer.kernel, mixer.conv_bias);
  layer.modules.push_back(other(cat(prefix, ".in_proj"), 2 * mixer.inner, hidden, mixer.bias_in));
  layer.modules.push_back(other(cat(prefix, ".x_proj"), mixer.rank + 2 * mixer.state, mixer.inner));
  layer.modules.push_back(other(cat(prefix, ".dt_proj"), mixer.inner, mixer.rank, /*bias=*/true));
  layer.modules.push_back(other(cat(prefix, ".out_proj"), hidden, mixer.inner, mixer.bias_out));
}

// tp cuts Mamba 2 as Megatron does: each rank has a part of the heads, and the groups of these
// heads.
void add_mamba2(const ModelConfig& config, LayerSpec& layer, std::string_view prefix) {
  const MixerConfig& mixer = *config.mixer;
  const int64_t hidden = config.hidden_size, inner = mixer.inner, heads = mixer.heads;
  const int64_t states = mixer.groups * mixer.state;
  const int64_t channels = inner + 2 * states;
  for (const std::string_view leaf : {"dt_bias", "A_log", "D"}) {
    layer.modules.push_back(cut_by_rows(other_vector(prefix, heads, leaf)));
  }
  const size_t convolution = layer.modules.size();
  add_convolution(layer, cat(prefix, ".conv1d"), channels, mixer.kernel, mixer.conv_bias);
  for (size_t i = convolution; i < layer.modules.size(); ++i) {
    layer.modules[i] = cut_by_rows(std::move(layer.modules[i]), {inner, states, states});
  }
  layer.modules.push_back(
      cut_by_rows(other(cat(prefix, ".in_proj"), inner + channels + heads, hidden, mixer.bias_in),
                  {inner, inner, states, states, heads}));
  if (mixer.norm) {
    layer.modules.push_back(cut_by_rows(other_vector(cat(prefix, ".norm"), inner)));
  }
  layer.modules.push_back(other(cat(prefix, ".out_proj"), hidden, inner, mixer.bias_out));
  layer.modules.back().other_cut = OtherCut::kColumns;
}

}  // namespace am::model
