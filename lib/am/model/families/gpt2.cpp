// GPT-2: learned positions, LayerNorm, an MLP without a gate, and weights stored [in, out].
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/gpt.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  rotate_no_layer(config);
  config.scales_attention = reader.boolean("scale_attn_weights").value_or(true);
  config.scales_by_layer = reader.boolean("scale_attn_by_inverse_layer_idx").value_or(false);
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.norm_bias = true;
  config.gated_mlp = false;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const int64_t hidden = config.hidden_size;
  const int64_t width = config.intermediate_size;
  LayerSpec spec = start_layer(config, layer);
  if (!config.scales_attention) spec.attention.scale = 1.0;
  if (config.scales_by_layer) spec.attention.scale /= static_cast<double>(layer + 1);
  spec.modules = {
      norm(config, Role::kInputNorm, "ln_1", hidden),
      conv1d(fused_attention(config, "attn.c_attn", AttentionSpec::Fused::kConcatenated, spec)),
      conv1d(matrix(Role::kAttentionOut, "attn.c_proj", hidden, hidden, config.o_bias)),
      norm(config, Role::kPreFeedForwardNorm, "ln_2", hidden),
      conv1d(matrix(Role::kUp, "mlp.c_fc", width, hidden, config.mlp_bias)),
      conv1d(matrix(Role::kDown, "mlp.c_proj", hidden, width, config.mlp_bias)),
  };
  return spec;
}

}  // namespace

const Family kGpt2 = {
    .model_type = "gpt2",
    .description = "GPT-2 decoder: learned positions, LayerNorm, a plain MLP with GELU",
    .layer_class = "transformers.models.gpt2.modeling_gpt2.GPT2Block",
    .keys = {.hidden_size = "n_embd",
             .intermediate_size = "n_inner",
             .layers = "n_layer",
             .heads = "n_head",
             .key_value_heads = "",
             .head_dim = "",
             .positions = "n_positions",
             .norm_eps = "layer_norm_epsilon",
             .activation = "activation_function"},
    .defaults = {.max_position_embeddings = 1024,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu_new",
                 .intermediate_ratio = 4},
    .rotary = false,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = kGptNames,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
