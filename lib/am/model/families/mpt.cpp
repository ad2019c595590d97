// MPT: position biases of attention scores (ALiBi), LayerNorm, one matrix for queries, keys and
// values, and an MLP without a gate. No module has a bias.
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

// The only values of alibi_bias_max and of expansion_ratio (the MLP's width divided by the hidden
// size) that transformers' class uses. The class ignores other values in the config.
constexpr int64_t kLastExponent = 8;
constexpr int64_t kExpansion = 4;

void require(ConfigReader& reader, std::string_view key, int64_t only) {
  const auto value = reader.integer(key, 1, int64_t{1} << 20);
  if (!value || *value == only) return;
  reader.error("model.value", key, cat(key, " = ", *value, " is not supported"),
               cat("transformers always uses ", key, " = ", only));
}

void read_attention(ConfigReader reader, ModelConfig& config) {
  require(reader, "alibi_bias_max", kLastExponent);
  for (const auto& [key, only] :
       {std::pair{"alibi", true}, {"qk_ln", false}, {"prefix_lm", false}}) {
    require_boolean(reader, key, only,
                    cat(key, " = ", only ? "false" : "true", " is not supported"));
  }
  const std::string type = reader.text("attn_type").value_or("multihead_attention");
  if (type != "multihead_attention") {
    reader.error("model.value", "attn_type", cat("attn_type \"", type, "\" is not supported"),
                 "legal: \"multihead_attention\"");
  }
  config.attention_scale = reader.number("softmax_scale", 0.0, 1e6);
  config.qkv_limit = reader.number("clip_qkv", 0.0, 1e6);
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  rotate_no_layer(config);
  config.alibi = static_cast<double>(kLastExponent);
  config.gated_mlp = false;
  require(reader, "expansion_ratio", kExpansion);
  require_boolean(reader, "no_bias", true, "no_bias = false is not supported");
  read_attention(reader.nested_or_empty("attn_config"), config);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 1> kFirst = {{{Role::kInputNorm, "norm_1"}}};
  constexpr std::array<NamedNorm, 1> kSecond = {{{Role::kPreFeedForwardNorm, "norm_2"}}};
  LayerSpec spec = start_layer(config, layer);
  add_norms(config, spec, kFirst);
  spec.modules.push_back(
      fused_attention(config, "attn.Wqkv", AttentionSpec::Fused::kConcatenated, spec));
  spec.modules.push_back(
      matrix(Role::kAttentionOut, "attn.out_proj", config.hidden_size, config.hidden_size));
  add_norms(config, spec, kSecond);
  add_plain_mlp(config, spec, "ffn.up_proj", "ffn.down_proj");
  return spec;
}

}  // namespace

const Family kMpt = {
    .model_type = "mpt",
    .description = "MPT decoder: ALiBi, LayerNorm, a plain MLP, no biases",
    .layer_class = "transformers.models.mpt.modeling_mpt.MptBlock",
    .keys = {.hidden_size = "d_model",
             .intermediate_size = "",
             .layers = "n_layers",
             .heads = "n_heads",
             .key_value_heads = "",
             .head_dim = "",
             .positions = "max_seq_len",
             .norm_eps = "layer_norm_epsilon",
             .activation = "",
             .spellings = {{{"d_model", "hidden_size"},
                            {"n_heads", "num_attention_heads"},
                            {"n_layers", "num_hidden_layers"}}}},
    .defaults = {.max_position_embeddings = 2048,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu",
                 .intermediate_ratio = 4},
    .rotary = false,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = {.embedding = "transformer.wte",
              .layers = "transformer.blocks",
              .norm = "transformer.norm_f"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
