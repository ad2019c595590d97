// LFM2: gated short convolutions in most layers, and attention with norms over query and key heads
// in the others. lfm2 has a dense MLP; lfm2_moe has experts after the dense first layers.
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

constexpr int64_t kKernel = 3;
constexpr int64_t kMultiple = 256;
constexpr int64_t kDenseLayers = 2;

// Reads the keys of attention and of convolutions, whose default length is `kernel`.
void read_mixer(ConfigReader& reader, ModelConfig& config, int64_t kernel) {
  config.qk_norm = true;
  MixerConfig mixer;
  mixer.kernel = reader.integer("conv_L_cache", 1, kMaxMixerSize).value_or(kernel);
  mixer.conv_bias = mixer.bias_in = mixer.bias_out = reader.boolean("conv_bias").value_or(false);
  config.mixer = std::move(mixer);
}

// Reads the keys of LFM2's layers. The hub's configs spell tie_word_embeddings as tie_embedding.
void read_layers(ConfigReader& reader, ModelConfig& config) {
  config.tie_word_embeddings = reader.boolean("tie_embedding").value_or(config.tie_word_embeddings);
  read_mixer(reader, config, kKernel);
  read_mixer_layers(reader, config, "layer_types", {"conv"}, 1);
}

// Reads the layers with attention from full_attn_idxs if the config has no layer_types.
void read_attention_layers(ConfigReader& reader, ModelConfig& config) {
  constexpr std::string_view kKey = "full_attn_idxs";
  if (reader.raw(kKey).is_null() || !reader.raw("layer_types").is_null()) return;
  config.mixer->layers = read_layer_indices(reader, config, kKey);
  config.mixer->layers.flip();
}

// Returns the MLP's width: `width` itself if block_auto_adjust_ff_dim is false; otherwise two
// thirds of `width`, multiplied by block_ffn_dim_multiplier and rounded up to a multiple of
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

// Reads LFM3's layers. Without layer_types, layers 2, 6, 10, ... have full attention, layers 4, 8,
// 12, ... have attention with a sliding window, and all others have a convolution.
void read_third_layers(ConfigReader& reader, ModelConfig& config) {
  const Json& types = reader.raw("layer_types");
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  std::vector<bool> windowed;
  bool fits = types.is_null() || (types.is_array() && types.size() == layers);
  for (size_t i = 0; fits && i < layers; ++i) {
    const Json& type = types.is_null() ? types : types[i];
    const bool attends = type.is_null() ? i % 4 == 2 : type == "full_attention";
    windowed.push_back(type.is_null() ? i % 4 == 0 && i > 0 : type == "sliding_attention");
    config.mixer->layers.push_back(!attends && !windowed.back());
    fits = type.is_null() || type == "conv" || !config.mixer->layers.back();
  }
  if (fits) return set_window_layers(config, std::move(windowed));
  reader.error("model.value", "layer_types",
               cat("layer_types must be a list of ", layers, " texts, one for each layer"),
               "known: \"conv\", \"full_attention\", \"sliding_attention\"");
}

void read_third(ConfigReader& reader, ModelConfig& config) {
  constexpr int64_t kThirdKernel = 7, kWindow = 256;
  constexpr double kLocalTheta = 10000.0;
  read_attention_bias(reader, config);
  read_layer_ropes(reader, config, kLocalTheta);
  read_window(reader, config, kWindow);
  read_mixer(reader, config, kThirdKernel);
  config.gates_heads = reader.boolean("use_attention_gate").value_or(true);
  config.hidden_norms = reader.boolean("use_sandwich_norm").value_or(true) ? 4 : 2;
  read_third_layers(reader, config);
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

constexpr std::array<NamedNorm, 2> kNorms = {
    {{Role::kInputNorm, "operator_norm"}, {Role::kPreFeedForwardNorm, "ffn_norm"}}};
constexpr std::array<NamedNorm, 2> kOuterNorms = {{{Role::kPostAttentionNorm, "post_operator_norm"},
                                                   {Role::kPostFeedForwardNorm, "post_ffn_norm"}}};

void add_gated_convolution(const ModelConfig& config, LayerSpec& spec) {
  const MixerConfig& mixer = *config.mixer;
  const int64_t hidden = config.hidden_size;
  add_convolution(spec, "conv.conv", hidden, mixer.kernel, mixer.conv_bias);
  spec.modules.push_back(other("conv.in_proj", 3 * hidden, hidden, mixer.bias_in));
  spec.modules.push_back(other("conv.out_proj", hidden, hidden, mixer.bias_out));
}

LayerSpec describe_third(const ModelConfig& config, int64_t layer) {
  const bool mixes = has_mixer(config, layer);
  LayerSpec spec = mixes ? start_mixer_layer(config, layer) : start_layer(config, layer);
  if (mixes) {
    add_gated_convolution(config, spec);
  } else {
    add_attention(config, spec);
    if (config.gates_heads) {
      spec.modules.push_back(
          other("self_attn.gate_proj", config.num_attention_heads, config.hidden_size));
    }
  }
  add_gated_mlp(config, spec, "feed_forward", kMlpNames);
  add_norms(config, spec, kNorms);
  if (config.hidden_norms > 2) {
    spec.residual = Residual::kSandwich;
    add_norms(config, spec, kOuterNorms);
  }
  return spec;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const bool mixes = has_mixer(config, layer);
  LayerSpec spec = mixes ? start_mixer_layer(config, layer) : start_layer(config, layer);
  if (mixes) {
    add_gated_convolution(config, spec);
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

const Family kLfm3 = {
    .model_type = "lfm3",
    .description = "LFM3 decoder: short convolutions, and attention with a gate for each head",
    .layer_class = "transformers.models.lfm3.modeling_lfm3.Lfm3DecoderLayer",
    .keys = {.norm_eps = "norm_eps"},
    .defaults = {.max_position_embeddings = 128000,
                 .key_value_heads = 4,
                 .head_dim = 128,
                 .norm_eps = 1e-5,
                 .rope_theta = 1000000.0,
                 .tie_word_embeddings = true,
                 .pad_token_id = 124893},
    .runs = false,
    .names = kNames,
    .read_config = read_third,
    .describe_layer = describe_third,
};

}  // namespace am::model
