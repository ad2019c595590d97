// LFM2: gated short convolutions in most layers, attention with norms over query and key heads in
// the others, and a dense MLP (lfm2) or experts after the first layers (lfm2_moe).
#include <utility>

#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

constexpr int64_t kKernel = 3;
constexpr int64_t kMultiple = 256;
constexpr int64_t kDenseLayers = 2;

// Reads the keys of attention and of convolutions. The hub's configs spell tie_word_embeddings as
// tie_embedding.
void read_layers(ConfigReader& reader, ModelConfig& config) {
  config.qk_norm = true;
  config.tie_word_embeddings = reader.boolean("tie_embedding").value_or(config.tie_word_embeddings);
  MixerConfig mixer;
  mixer.kernel = reader.integer("conv_L_cache", 1, kMaxMixerSize).value_or(kKernel);
  mixer.conv_bias = mixer.bias_in = mixer.bias_out = reader.boolean("conv_bias").value_or(false);
  config.mixer = std::move(mixer);
  read_mixer_layers(reader, config, "layer_types", {"conv"}, 1);
}

// Reads the layers with attention from full_attn_idxs if the config has no layer_types.
void read_attention_layers(ConfigReader& reader, ModelConfig& config) {
  constexpr std::string_view kKey = "full_attn_idxs";
  if (reader.raw(kKey).is_null() || !reader.raw("layer_types").is_null()) return;
  config.mixer->layers = read_layer_indices(reader, config, kKey);
  config.mixer->layers.flip();
}

// Returns the MLP's width: `width`, the stated one, if block_auto_adjust_ff_dim is false; otherwise
// two thirds of it, multiplied by block_ffn_dim_multiplier and rounded up to a multiple of
// block_multiple_of.
int64_t adjusted_width(ConfigReader& reader, int64_t width) {
  const double scale = reader.number("block_ffn_dim_multiplier", 1e-9, 1e6).value_or(1.0);
  const int64_t multiple = reader.integer("block_multiple_of", 1, kMaxWidth).value_or(kMultiple);
  if (!reader.boolean("block_auto_adjust_ff_dim").value_or(true)) return width;
  const int64_t two_thirds = 2 * width / 3;
  const auto scaled = static_cast<int64_t>(scale * static_cast<double>(two_thirds));
  return (scaled + multiple - 1) / multiple * multiple;
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_layers(reader, config);
  read_attention_layers(reader, config);
  const int64_t stated =
      reader.integer("block_ff_dim", 1, kMaxWidth).value_or(config.intermediate_size);
  config.intermediate_size = adjusted_width(reader, stated);
}

void read_moe_config(ConfigReader& reader, ModelConfig& config) {
  read_layers(reader, config);
  read_moe(reader, config,
           {.experts = {"num_experts"},
            .default_experts = 32,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 4,
            .width = "moe_intermediate_size",
            .default_width = 1792});
  read_normalisation(reader, config, true);
  const int64_t dense = reader.integer("num_dense_layers", 0, kMostLayers).value_or(kDenseLayers);
  const bool corrects = reader.boolean("use_expert_bias").value_or(true);
  if (!config.moe.has_value()) return;
  set_dense_layers(config, dense);
  config.moe->corrects = corrects;
}

constexpr GatedNames kMlpNames = {.gate = "w1", .up = "w3", .down = "w2"};

void add_feed_forward(const ModelConfig& config, int64_t layer, LayerSpec& spec) {
  if (!has_experts(config, layer)) {
    add_gated_mlp(config, spec, "feed_forward", kMlpNames);
    return;
  }
  spec.router->score = RouterSpec::Score::kSigmoid;
  add_router(config, spec, "feed_forward.gate");
  if (config.moe->corrects) {
    spec.modules.push_back(vector(Role::kRouterCorrection, "feed_forward", "expert_bias",
                                  config.moe->experts, Init::kZeros));
  }
  add_experts(config, spec, "feed_forward.experts", kMlpNames);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 2> kNorms = {
      {{Role::kInputNorm, "operator_norm"}, {Role::kPreFeedForwardNorm, "ffn_norm"}}};
  const int64_t hidden = config.hidden_size;
  const bool mixes = has_mixer(config, layer);
  LayerSpec spec = mixes ? start_mixer_layer(config, layer) : start_layer(config, layer);
  if (mixes) {
    const MixerConfig& mixer = *config.mixer;
    add_convolution(spec, "conv.conv", hidden, mixer.kernel, mixer.conv_bias);
    spec.modules.push_back(other("conv.in_proj", 3 * hidden, hidden, mixer.bias_in));
    spec.modules.push_back(other("conv.out_proj", hidden, hidden, mixer.bias_out));
  } else {
    add_attention(config, spec,
                  {.output = "self_attn.out_proj",
                   .query_norm = "self_attn.q_layernorm",
                   .key_norm = "self_attn.k_layernorm"});
  }
  add_feed_forward(config, layer, spec);
  add_norms(config, spec, kNorms);
  return spec;
}

constexpr ConfigDefaults kDefaults = {.max_position_embeddings = 128000,
                                      .key_value_heads = 8,
                                      .norm_eps = 1e-5,
                                      .rope_theta = 1000000.0,
                                      .tie_word_embeddings = true,
                                      .pad_token_id = 0};
constexpr ModuleNames kNames = {.norm = "model.embedding_norm"};

}  // namespace

const Family kLfm2 = {
    .model_type = "lfm2",
    .description = "LFM2 decoder: short convolutions and attention, a gated MLP",
    .layer_class = "transformers.models.lfm2.modeling_lfm2.Lfm2DecoderLayer",
    .keys = {.norm_eps = "norm_eps", .spellings = {{{"intermediate_size", "block_ff_dim"}}}},
    .defaults = kDefaults,
    .runs = false,
    .names = kNames,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

const Family kLfm2Moe = {
    .model_type = "lfm2_moe",
    .description = "LFM2-MoE decoder: short convolutions and attention, experts by sigmoid scores",
    .layer_class = "transformers.models.lfm2_moe.modeling_lfm2_moe.Lfm2MoeDecoderLayer",
    .keys = {.norm_eps = "norm_eps"},
    .defaults = kDefaults,
    .runs = false,
    .names = kNames,
    .read_config = read_moe_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
