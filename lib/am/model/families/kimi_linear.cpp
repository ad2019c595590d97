// Kimi Linear: linear attention with a forget gate in most layers, latent attention without RoPE in
// the others, and DeepSeek V3's experts after the first layers.
#include <algorithm>
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

// Reads which layers have linear attention: those that layer_types marks or, without this key, all
// layers that are not in the list full_attn_layers of linear_attn_config, whose indices begin with
// 1. If also this list or the list kda_layers is missing, all layers except the fifth, the ninth,
// the thirteenth, ... have linear attention.
void read_layers(ConfigReader& reader, ConfigReader& linear, ModelConfig& config) {
  std::vector<bool>& mixes = config.mixer->layers;
  if (!reader.raw("layer_types").is_null()) {
    read_mixer_layers(reader, config, "layer_types", {"linear_attention"}, 1);
    return;
  }
  const Json& listed = linear.raw("full_attn_layers");
  const bool lists = listed.is_array() && linear.raw("kda_layers").is_array();
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const bool attends = lists ? std::find(listed.begin(), listed.end(), layer + 1) != listed.end()
                               : layer > 0 && layer % 4 == 0;
    mixes.push_back(!attends);
  }
}

// Reads the sizes of linear attention, at the top of the config or in linear_attn_config.
void read_linear_attention(ConfigReader& reader, ModelConfig& config) {
  ConfigReader linear = reader.nested_or_empty("linear_attn_config");
  const auto size = [&](std::string_view key, std::string_view nested, int64_t fallback) {
    const auto own = reader.integer(key, 1, kMaxMixerSize);
    return linear.integer(nested, 1, kMaxMixerSize).value_or(own.value_or(fallback));
  };
  MixerConfig mixer;
  mixer.width = mixer.key_width = size("linear_head_dim", "head_dim", 128);
  mixer.heads = mixer.key_heads = size("linear_num_heads", "num_heads", 32);
  mixer.kernel = size("linear_conv_kernel_dim", "short_conv_kernel_size", 4);
  config.mixer = std::move(mixer);
  read_layers(reader, linear, config);
}

// Reads the keys of the experts, which have two spellings.
void read_experts(ConfigReader& reader, ModelConfig& config) {
  read_moe(reader, config,
           {.experts = {"num_experts", "num_local_experts"},
            .default_experts = 256,
            .experts_per_token = {"num_experts_per_token", "num_experts_per_tok"},
            .default_experts_per_token = 8,
            .width = "moe_intermediate_size",
            .default_width = 1024});
  const std::string_view key =
      reader.has("num_shared_experts") ? "num_shared_experts" : "n_shared_experts";
  const int64_t shared = reader.integer(key, 1, kMaxShared).value_or(1);
  const int64_t dense = reader.integer("first_k_dense_replace", 0, kMostLayers).value_or(1);
  if (!config.moe.has_value()) return;
  config.moe->shared_width = shared * config.moe->expert_width;
  config.moe->normalise =
      reader.boolean(reader.has("moe_renormalize") ? "moe_renormalize" : "norm_topk_prob")
          .value_or(true);
  read_mlp_layer_types(reader, config, dense);
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  rotate_no_layer(config);
  config.tie_word_embeddings = false;  // transformers' class does not tie the head
  read_latent_attention(reader, config, {.query_rank = 0});
  read_linear_attention(reader, config);
  read_experts(reader, config);
}

// Adds linear attention, whose gates of forgetting and of the output have low rank.
void add_linear_attention(const ModelConfig& config, LayerSpec& spec) {
  const MixerConfig& mixer = *config.mixer;
  const int64_t hidden = config.hidden_size, width = mixer.heads * mixer.width;
  for (const std::string_view name : {"q", "k", "v"}) {
    spec.modules.push_back(other(cat("self_attn.", name, "_proj"), width, hidden));
    add_convolution(spec, cat("self_attn.", name, "_conv1d"), width, mixer.kernel);
  }
  for (const std::string_view name : {"f", "g"}) {
    spec.modules.push_back(other(cat("self_attn.", name, "_a_proj"), mixer.width, hidden));
    spec.modules.push_back(other(cat("self_attn.", name, "_b_proj"), width, mixer.width));
  }
  spec.modules.push_back(other("self_attn.b_proj", mixer.heads, hidden));
  spec.modules.push_back(other("self_attn", mixer.heads, 1));
  spec.modules.back().leaf = "A_log";
  spec.modules.back().leading_ones = 2;
  spec.modules.push_back(other_vector("self_attn", width, "dt_bias"));
  spec.modules.push_back(other_vector("self_attn.o_norm", mixer.width));
  spec.modules.push_back(other("self_attn.o_proj", hidden, width));
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const bool mixes = has_mixer(config, layer);
  LayerSpec spec = mixes ? start_mixer_layer(config, layer) : start_layer(config, layer);
  if (mixes) {
    add_linear_attention(config, spec);
  } else {
    add_latent_attention(config, spec);
  }
  if (has_experts(config, layer)) {
    add_v3_experts(config, spec,
                   {.router = "block_sparse_moe.gate",
                    .correction = "block_sparse_moe.gate",
                    .experts = "block_sparse_moe.experts",
                    .shared = "block_sparse_moe.shared_experts",
                    .of_expert = {.gate = "w1", .up = "w3", .down = "w2"}});
  } else {
    add_gated_mlp(config, spec);
  }
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kKimiLinear = {
    .model_type = "kimi_linear",
    .description = "Kimi Linear decoder: linear and latent attention, routed and shared experts",
    .layer_class = "transformers.models.kimi_linear.modeling_kimi_linear.KimiLinearDecoderLayer",
    .keys = {.head_dim = "qk_rope_head_dim", .positions = "model_max_length"},
    .defaults = {.max_position_embeddings = 1048576,
                 .head_dim = 64,
                 .norm_eps = 1e-5,
                 .pad_token_id = 163839},
    .runs = false,
    .rotary = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
