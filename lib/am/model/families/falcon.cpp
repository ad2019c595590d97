// Falcon (7B, 40B, 180B, RW): queries, keys and values in one matrix, and an MLP without a gate,
// usually in parallel with attention.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

// Reads the keys of Falcon. num_kv_heads applies only with new_decoder_architecture. Otherwise
// there is one key/value head (multi_query) or one per query head.
void read_config(ConfigReader& reader, ModelConfig& config) {
  const bool bias = reader.boolean("bias").value_or(false);
  config.qkv_bias = config.o_bias = config.mlp_bias = bias;
  config.norm_bias = true;
  config.gated_mlp = false;
  config.rounds_alibi = reader.boolean("alibi").value_or(false);
  if (config.rounds_alibi) {
    rotate_no_layer(config);
  }
  const bool grouped = reader.boolean("new_decoder_architecture").value_or(false);
  const bool one = reader.boolean("multi_query").value_or(true);
  if (!grouped) config.num_key_value_heads = one ? 1 : config.num_attention_heads;
  config.parallel_block = reader.boolean("parallel_attn").value_or(true);
  const int64_t norms = reader.integer("num_ln_in_parallel_attn", 1, 2).value_or(grouped ? 2 : 1);
  config.hidden_norms = config.parallel_block ? static_cast<int>(norms) : 2;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 2> kSequential = {
      {{Role::kPreFeedForwardNorm, "post_attention_layernorm"},
       {Role::kInputNorm, "input_layernorm"}}};
  constexpr std::array<NamedNorm, 2> kTwo = {
      {{Role::kInputNorm, "ln_attn"}, {Role::kPreFeedForwardNorm, "ln_mlp"}}};
  constexpr std::array<NamedNorm, 1> kOne = {{{Role::kInputNorm, "input_layernorm"}}};

  LayerSpec spec = start_layer(config, layer);
  // With only one key head, kByKeyHead and kConcatenated mean the same arrangement of rows.
  const auto fused = config.num_key_value_heads == 1 ? AttentionSpec::Fused::kConcatenated
                                                     : AttentionSpec::Fused::kByKeyHead;
  spec.modules.push_back(fused_attention(config, "self_attention.query_key_value", fused, spec));
  spec.modules.push_back(matrix(Role::kAttentionOut, "self_attention.dense", config.hidden_size,
                                config.num_attention_heads * config.head_dim, config.o_bias));
  add_plain_mlp(config, spec, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
  if (!config.parallel_block) {
    add_norms(config, spec, kSequential);
  } else if (config.hidden_norms == 2) {
    spec.residual = Residual::kParallelTwoNorms;
    add_norms(config, spec, kTwo);
  } else {
    spec.residual = Residual::kParallelOneNorm;
    add_norms(config, spec, kOne);
  }
  return spec;
}

}  // namespace

const Family kFalcon = {
    .model_type = "falcon",
    .description = "Falcon decoder: multi-query attention and a plain MLP side by side",
    .layer_class = "transformers.models.falcon.modeling_falcon.FalconDecoderLayer",
    .keys = {.intermediate_size = "ffn_hidden_size",
             .key_value_heads = "num_kv_heads",
             .head_dim = "",
             .norm_eps = "layer_norm_epsilon",
             .activation = "activation"},
    .defaults = {.max_position_embeddings = 2048,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu",
                 .intermediate_ratio = 4},
    .rotary = false,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = {.embedding = "transformer.word_embeddings",
              .layers = "transformer.h",
              .norm = "transformer.ln_f"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
