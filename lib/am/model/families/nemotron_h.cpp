// Nemotron-H, Nemotron Nano 2 and Nemotron 3: each layer is one norm and one block, which is Mamba
// 2, attention without RoPE, an MLP with the square of ReLU, or experts.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

constexpr int64_t kMostListed = 10000;  // largest legal number of layers
constexpr DeepseekDefaults kDefaults = {.experts = 8,
                                        .experts_per_token = 2,
                                        .expert_width = 7688,
                                        .shared_experts = 1,
                                        .dense_layers = 0,
                                        .groups = 1,
                                        .topk_groups = 1,
                                        .scale = 1.0};

// A kind of block: its letter in hybrid_override_pattern, and its new and old name. Both names are
// legal in layers_block_type and in layer_types.
struct Block {
  char letter;
  std::string_view name;
  std::string_view old_name;
};
constexpr std::array<Block, 4> kBlocks = {{{'M', "linear_attention", "mamba"},
                                           {'*', "full_attention", "attention"},
                                           {'-', "mlp", "mlp"},
                                           {'E', "moe", "moe"}}};

// Returns one letter for each layer, from the first of the keys layers_block_type, layer_types and
// hybrid_override_pattern that the config has.
std::string read_pattern(ConfigReader& reader) {
  const bool other = reader.raw("layers_block_type").is_null();
  const std::string_view key = other ? "layer_types" : "layers_block_type";
  const Json& list = reader.raw(key);
  std::string pattern;
  bool fits = list.is_array();
  for (const Json& item : list) {
    const auto* const block = std::find_if(kBlocks.begin(), kBlocks.end(), [&](const Block& each) {
      return item == each.name || item == each.old_name;
    });
    fits = fits && block != kBlocks.end();
    if (fits) pattern += block->letter;
  }
  std::string_view read = key;
  if (list.is_null()) {
    read = "hybrid_override_pattern";
    pattern = reader.text(read).value_or("ME*-");
    fits = pattern.find_first_not_of("ME*-") == std::string::npos;
  }
  if (fits && !pattern.empty() && pattern.size() <= kMostListed) return pattern;
  reader.error("model.value", read,
               cat(read, " must name a known block for each of 1 to ", kMostListed, " layers"),
               read == key ? "known: \"linear_attention\", \"full_attention\", \"mlp\", \"moe\""
                           : "known: M (Mamba 2), * (attention), - (MLP), E (experts)");
  return "M";
}

std::vector<bool> layers_with(const std::string& pattern, char letter) {
  std::vector<bool> layers;
  for (const char each : pattern) layers.push_back(each == letter);
  return layers;
}

// Reads the sizes of Mamba 2. Some keys have a second name, which has precedence.
void read_mamba(ConfigReader& reader, ModelConfig& config) {
  const auto size = [&](std::string_view key, std::string_view other, int64_t fallback) {
    return reader.integer(reader.has(other) ? other : key, 1, kMaxMixerSize).value_or(fallback);
  };
  MixerConfig mixer;
  mixer.heads = reader.integer("mamba_num_heads", 1, kMaxMixerHeads).value_or(128);
  mixer.width = reader.integer("mamba_head_dim", 1, kMaxMixerSize).value_or(64);
  mixer.inner = mixer.heads * mixer.width;
  mixer.groups = size("n_groups", "mamba_n_groups", 8);
  mixer.kernel = size("conv_kernel", "mamba_d_conv", 4);
  mixer.state = reader.integer("ssm_state_size", 1, kMaxMixerSize).value_or(128);
  constexpr std::string_view kOther = "mamba_conv_bias";
  mixer.conv_bias =
      reader.boolean(reader.has(kOther) ? kOther : "use_conv_bias").value_or(!reader.has(kOther));
  mixer.bias_in = mixer.bias_out = reader.boolean("use_bias").value_or(false);
  mixer.norm = true;
  config.mixer = std::move(mixer);
}

// Reads the keys of the experts. If moe_latent_size is a number, the experts read low-rank vectors.
void read_experts(ConfigReader& reader, ModelConfig& config) {
  read_deepseek_experts(reader, config, kDefaults);
  read_normalisation(reader, config, true);
  const int64_t latent = reader.integer("moe_latent_size", 1, kMaxWidth).value_or(0);
  const int64_t shared =
      reader.integer("moe_shared_expert_intermediate_size", 1, kMaxWidth).value_or(7688);
  if (!config.moe.has_value()) return;
  config.moe->latent_width = latent;
  config.moe->shared_width = shared;
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  const std::string pattern = read_pattern(reader);
  config.num_hidden_layers = static_cast<int64_t>(pattern.size());
  config.hidden_norms = 1;
  config.gated_mlp = false;
  config.tie_word_embeddings = false;  // transformers' class does not tie the head
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  config.lone_mlps = layers_with(pattern, '-');
  rotate_no_layer(config);
  read_mamba(reader, config);
  config.mixer->layers = layers_with(pattern, 'M');
  if (pattern.find('E') == std::string::npos) return;
  read_experts(reader, config);
  if (config.moe.has_value()) config.moe->layers = layers_with(pattern, 'E');
}

void add_block_of_experts(const ModelConfig& config, LayerSpec& spec) {
  add_v3_experts(config, spec,
                 {.router = "mixer.gate",
                  .correction = "mixer.gate",
                  .experts = "mixer.experts",
                  .shared = "mixer.shared_experts"});
  const int64_t latent = config.moe->latent_width, hidden = config.hidden_size;
  if (latent == 0) return;
  spec.modules.push_back(other("mixer.fc1_latent_proj", latent, hidden, config.mlp_bias));
  spec.modules.back().other_cut = OtherCut::kReplicated;
  spec.modules.push_back(other("mixer.fc2_latent_proj", hidden, latent, config.mlp_bias));
  spec.modules.back().other_cut = OtherCut::kReplicated;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const bool mlp = config.lone_mlps[static_cast<size_t>(layer)];
  const bool feeds = mlp || has_experts(config, layer);
  const bool mixes = has_mixer(config, layer);
  LayerSpec spec = feeds || mixes ? start_mixer_layer(config, layer) : start_layer(config, layer);
  const Role role = feeds ? Role::kPreFeedForwardNorm : Role::kInputNorm;
  spec.modules.push_back(norm(config, role, "norm", config.hidden_size));
  if (mlp) {
    add_plain_mlp(config, spec, "mixer.up_proj", "mixer.down_proj");
  } else if (feeds) {
    add_block_of_experts(config, spec);
  } else if (mixes) {
    add_mamba2(config, spec, "mixer");
  } else {
    add_attention(config, spec,
                  {.query = "mixer.q_proj",
                   .key = "mixer.k_proj",
                   .value = "mixer.v_proj",
                   .output = "mixer.o_proj"});
  }
  return spec;
}

}  // namespace

const Family kNemotronH = {
    .model_type = "nemotron_h",
    .description = "Nemotron-H decoder: Mamba 2, attention, an MLP or experts, one per layer",
    .layer_class = "transformers.models.nemotron_h.modeling_nemotron_h.NemotronHBlock",
    .keys = {.layers = "", .norm_eps = "layer_norm_epsilon", .activation = "mlp_hidden_act"},
    .defaults = {.max_position_embeddings = 4096,
                 .key_value_heads = 8,
                 .head_dim = 128,
                 .norm_eps = 1e-5,
                 .hidden_act = "relu2",
                 .pad_token_id = 0},
    .runs = false,
    .rotary = false,
    .pads_embedding = false,
    .names = kMambaNames,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
