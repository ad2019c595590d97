// BLOOM: position biases of attention scores (ALiBi), a norm of the embeddings, LayerNorm, one
// matrix for queries, keys and values, and an MLP without a gate. All projections and norms in the
// layers have biases.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kLastExponent = 8.0;

void read_config(ConfigReader& reader, ModelConfig& config) {
  rotate_no_layer(config);
  config.alibi = kLastExponent;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.norm_bias = true;
  config.gated_mlp = false;
  constexpr std::string_view kPostNorm = "apply_residual_connection_post_layernorm";
  require_boolean(reader, kPostNorm, false, "residuals after the norms are not supported");
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 1> kFirst = {{{Role::kInputNorm, "input_layernorm"}}};
  constexpr std::array<NamedNorm, 1> kSecond = {
      {{Role::kPreFeedForwardNorm, "post_attention_layernorm"}}};
  LayerSpec spec = start_layer(config, layer);
  add_norms(config, spec, kFirst);
  spec.modules.push_back(fused_attention(config, "self_attention.query_key_value",
                                         AttentionSpec::Fused::kByKeyHead, spec));
  spec.modules.push_back(matrix(Role::kAttentionOut, "self_attention.dense", config.hidden_size,
                                config.hidden_size, config.o_bias));
  add_norms(config, spec, kSecond);
  add_plain_mlp(config, spec, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
  return spec;
}

}  // namespace

const Family kBloom = {
    .model_type = "bloom",
    .description = "BLOOM decoder: ALiBi, a norm of the embeddings, LayerNorm, a plain MLP",
    .layer_class = "transformers.models.bloom.modeling_bloom.BloomBlock",
    .keys = {.intermediate_size = "",
             .layers = "n_layer",
             .heads = "n_head",
             .key_value_heads = "",
             .head_dim = "",
             .positions = "seq_length",
             .norm_eps = "layer_norm_epsilon",
             .activation = "",
             .spellings = {{{"hidden_size", "n_embed"},
                            {"n_head", "num_attention_heads"},
                            {"n_layer", "num_hidden_layers"}}}},
    .defaults = {.max_position_embeddings = 2048,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu_new",
                 .intermediate_ratio = 4},
    .rotary = false,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = {.embedding = "transformer.word_embeddings",
              .embedding_norm = "transformer.word_embeddings_layernorm",
              .layers = "transformer.h",
              .norm = "transformer.ln_f"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
