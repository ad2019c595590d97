// RecurrentGemma (Griffin): gated linear recurrences in most layers, attention with a sliding
// window in the others, and a gated MLP.
#include <array>
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

constexpr double kRotatedPart = 0.5;

// Reads which layers have the recurrence. The list block_types is repeated until it covers all
// layers. All layers without the recurrence have attention with the window.
void read_blocks(ConfigReader& reader, ModelConfig& config) {
  const Json& types = reader.raw("block_types");
  std::vector<bool> mixes;
  bool fits = types.is_array() && !types.empty();
  for (const Json& type : types) {
    mixes.push_back(type == "recurrent");
    fits = fits && (mixes.back() || type == "attention");
  }
  if (types.is_null()) {
    mixes = {true, true, false};
  } else if (!fits) {
    reader.error("model.value", "block_types",
                 "block_types must be a list of \"recurrent\" and \"attention\"");
    return;
  }
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    config.mixer->layers.push_back(mixes[static_cast<size_t>(layer) % mixes.size()]);
  }
  std::vector<bool> windowed = config.mixer->layers;
  windowed.flip();
  set_window_layers(config, std::move(windowed));
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.o_bias = config.mlp_bias = true;
  if (config.intermediate_size == 1) {
    reader.error("model.value", "intermediate_size", "intermediate_size is below 2",
                 "the key counts the widths of gate and up together");
  }
  config.intermediate_size /= 2;
  config.logit_softcap = read_switchable(reader, "logits_soft_cap", 30.0);
  set_rotated_part(reader, config, kRotatedPart);
  config.sliding_window =
      reader.integer("attention_window_size", 1, int64_t{1} << 40).value_or(2048);
  MixerConfig mixer;
  mixer.inner = reader.integer("lru_width", 1, kMaxMixerSize).value_or(config.hidden_size);
  mixer.kernel = reader.integer("conv1d_width", 1, kMaxMixerSize).value_or(4);
  if (config.num_attention_heads > 0 && mixer.inner % config.num_attention_heads != 0) {
    reader.error("model.heads", "lru_width", "the number of heads does not divide lru_width");
  }
  config.mixer = std::move(mixer);
  read_blocks(reader, config);
}

// Adds the recurrence. The matrices of its two gates are block-diagonal, and only the blocks are
// stored: one for each head.
void add_recurrence(const ModelConfig& config, LayerSpec& spec) {
  const int64_t width = config.mixer->inner, hidden = config.hidden_size;
  const int64_t heads = config.num_attention_heads;
  spec.modules.push_back(other("temporal_block.linear_y", width, hidden, /*bias=*/true));
  spec.modules.push_back(other("temporal_block.linear_x", width, hidden, /*bias=*/true));
  spec.modules.push_back(other("temporal_block.linear_out", hidden, width, /*bias=*/true));
  add_convolution(spec, "temporal_block.conv_1d", width, config.mixer->kernel, /*bias=*/true);
  const auto blocks = [&](std::string_view leaf, int64_t in) {
    spec.modules.push_back(other("temporal_block.rg_lru", width / heads, in));
    spec.modules.back().leaf = leaf;
    spec.modules.back().copies = heads;
    spec.modules.back().stacked = true;
  };
  spec.modules.push_back(other_vector("temporal_block.rg_lru", width, "recurrent_param"));
  blocks("input_gate_weight", width / heads);
  blocks("input_gate_bias", 0);
  blocks("recurrent_gate_weight", width / heads);
  blocks("recurrent_gate_bias", 0);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 2> kNorms = {
      {{Role::kInputNorm, "temporal_pre_norm"}, {Role::kPreFeedForwardNorm, "channel_pre_norm"}}};
  const bool mixes = has_mixer(config, layer);
  LayerSpec spec = mixes ? start_mixer_layer(config, layer) : start_layer(config, layer);
  if (mixes) {
    add_recurrence(config, spec);
  } else {
    add_attention(config, spec,
                  {.query = "temporal_block.q_proj",
                   .key = "temporal_block.k_proj",
                   .value = "temporal_block.v_proj",
                   .output = "temporal_block.o_proj"});
  }
  add_gated_mlp(config, spec, "mlp_block");
  add_norms(config, spec, kNorms);
  return spec;
}

}  // namespace

const Family kRecurrentGemma = {
    .model_type = "recurrent_gemma",
    .description = "RecurrentGemma decoder: linear recurrences, and attention with a window",
    .layer_class =
        "transformers.models.recurrent_gemma.modeling_recurrent_gemma.RecurrentGemmaDecoderLayer",
    .keys = {.head_dim = "", .positions = "", .activation = "hidden_activation"},
    .defaults = {.tie_word_embeddings = true, .hidden_act = "gelu_pytorch_tanh", .pad_token_id = 0},
    .runs = false,
    .rotates_part = true,
    .norm = NormKind::kRmsPlusOne,
    .scales_embedding = true,
    .names = {.norm = "model.final_norm"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
