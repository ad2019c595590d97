// Functions for families whose layers mix tokens by linear attention, a convolution or Mamba.
// am-plan counts these mixers and am-run does not support them; their modules have the role kOther.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "am/model/config_reader.h"
#include "am/model/spec.h"

namespace am::model {

// Names of the modules around the layers of Mamba and of Nemotron-H.
inline constexpr ModuleNames kMambaNames = {
    .embedding = "backbone.embeddings", .layers = "backbone.layers", .norm = "backbone.norm_f"};

inline constexpr int64_t kMaxMixerHeads = int64_t{1} << 16;  // largest legal number of heads
inline constexpr int64_t kMaxMixerSize = int64_t{1} << 20;   // largest legal size of a mixer

// Sets which layers have the mixer: those whose entry in the list under `key` is one of the texts
// in `mixer`. All other entries must be "full_attention" or "attention". If the list is missing,
// all layers except every `period`-th have the mixer. config.mixer must be present.
void read_mixer_layers(ConfigReader& reader, ModelConfig& config, std::string_view key,
                       std::initializer_list<std::string_view> mixer, int64_t period);
// Whether the layer has config.mixer instead of attention.
bool has_mixer(const ModelConfig& config, int64_t layer);

// Default sizes of linear attention: numbers of heads, and widths of a head's keys and values.
struct DeltaNetDefaults {
  int64_t key_heads = 16;
  int64_t heads = 32;
  int64_t key_width = 128;  // 0: three quarters of hidden_size, divided by the number of key heads
  int64_t width = 128;      // 0: twice the width of a key
};
// Reads the keys of linear attention with a gated delta rule (Qwen3-Next) into config.mixer,
// including which layers have this mixer. Without layer_types, these are all layers except every
// `full_attention_interval`-th (by default every fourth), which has attention.
void read_delta_net(ConfigReader& reader, ModelConfig& config,
                    const DeltaNetDefaults& defaults = {});
// Reads the rank of the projection to Mamba's time steps. A missing key, null and "auto" mean a
// sixteenth of hidden_size, rounded up.
int64_t read_mamba_rank(ConfigReader& reader, const ModelConfig& config, std::string_view key);
// Reads the keys `mamba_*` of Mamba 2 into config.mixer, except which layers have Mamba.
void read_mamba2(ConfigReader& reader, ModelConfig& config);

// Returns a layer without modules and without attention.
LayerSpec start_mixer_layer(const ModelConfig& config, int64_t layer);
// Adds linear attention with a gated delta rule except for the projections of its input.
void add_delta_net(const ModelConfig& config, LayerSpec& layer,
                   std::string_view norm = "linear_attn.norm",
                   std::string_view output = "linear_attn.out_proj");
// Adds attention whose query matrix also returns a gate of its output (Qwen3-Next).
void add_gated_attention(const ModelConfig& config, LayerSpec& layer);
// Add the modules of Mamba and of Mamba 2. Names begin with `prefix`, for example "mamba".
void add_mamba(const ModelConfig& config, LayerSpec& layer, std::string_view prefix);
void add_mamba2(const ModelConfig& config, LayerSpec& layer, std::string_view prefix);

}  // namespace am::model
