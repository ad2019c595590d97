// Jamba: Mamba in most layers, attention without RoPE in the others, and experts in every second
// layer.
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

// Reads a period and an offset, for example attn_layer_period and attn_layer_offset if `what` is
// "attn". `period` and `offset` are the defaults. Returns, for each layer, whether its index modulo
// the period is the offset.
std::vector<bool> read_period(ConfigReader& reader, const ModelConfig& config,
                              std::string_view what, int64_t period, int64_t offset) {
  period = reader.integer(cat(what, "_layer_period"), 1, kMostLayers).value_or(period);
  offset = reader.integer(cat(what, "_layer_offset"), 0, kMostLayers).value_or(offset);
  std::vector<bool> layers;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    layers.push_back(layer % period == offset);
  }
  return layers;
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  rotate_no_layer(config);
  MixerConfig mixer;
  mixer.state = reader.integer("mamba_d_state", 1, kMaxMixerSize).value_or(16);
  mixer.kernel = reader.integer("mamba_d_conv", 1, kMaxMixerSize).value_or(4);
  mixer.inner = reader.integer("mamba_expand", 1, kMaxMixerSize).value_or(2) * config.hidden_size;
  mixer.rank = read_mamba_rank(reader, config, "mamba_dt_rank");
  mixer.conv_bias = reader.boolean("mamba_conv_bias").value_or(true);
  mixer.bias_in = mixer.bias_out = reader.boolean("mamba_proj_bias").value_or(false);
  mixer.layers = read_period(reader, config, "attn", 8, 4);
  mixer.layers.flip();
  config.mixer = std::move(mixer);
  std::vector<bool> sparse = read_period(reader, config, "expert", 2, 1);
  // With one expert, all layers have a dense MLP, and num_experts_per_tok is ignored.
  const bool named = !reader.raw("num_experts").is_null();
  if (reader.raw(named ? "num_experts" : "num_local_experts") == 1) return;
  read_moe(reader, config,
           {.experts = {"num_experts", "num_local_experts"},
            .default_experts = 16,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 2,
            .width = "intermediate_size",
            .default_width = 14336});
  if (config.moe.has_value()) config.moe->layers = std::move(sparse);
}

void add_mixer(const ModelConfig& config, LayerSpec& spec) {
  add_mamba(config, spec, "mamba");
  spec.modules.push_back(other_vector("mamba.dt_layernorm", config.mixer->rank));
  spec.modules.push_back(other_vector("mamba.b_layernorm", config.mixer->state));
  spec.modules.push_back(other_vector("mamba.c_layernorm", config.mixer->state));
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 2> kNorms = {
      {{Role::kInputNorm, "input_layernorm"}, {Role::kPreFeedForwardNorm, "pre_ff_layernorm"}}};
  const bool mixes = has_mixer(config, layer);
  LayerSpec spec = mixes ? start_mixer_layer(config, layer) : start_layer(config, layer);
  if (mixes) {
    add_mixer(config, spec);
  } else {
    add_attention(config, spec);
  }
  if (has_experts(config, layer)) {
    add_router(config, spec, "feed_forward.router");
    add_experts(config, spec, "feed_forward.experts");
  } else {
    add_gated_mlp(config, spec, "feed_forward");
  }
  add_norms(config, spec, kNorms);
  return spec;
}

}  // namespace

const Family kJamba = {
    .model_type = "jamba",
    .description = "Jamba decoder: Mamba and attention, experts in every second layer",
    .layer_class = "transformers.models.jamba.modeling_jamba.JambaAttentionDecoderLayer",
    .defaults = {.max_position_embeddings = 262144, .key_value_heads = 8, .pad_token_id = 0},
    .runs = false,
    .rotary = false,
    .names = {.norm = "model.final_layernorm"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
