// GPT (2018): GPT-2's attention and MLP, with norms after the residual sums and without a norm
// after the last layer.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/gpt.h"

namespace am::model {
namespace {

void read_config(ConfigReader&, ModelConfig& config) {
  rotate_no_layer(config);
  config.qkv_bias = config.o_bias = config.mlp_bias = config.norm_bias = true;
  config.gated_mlp = false;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const int64_t hidden = config.hidden_size;
  const int64_t width = config.intermediate_size;
  LayerSpec spec = start_layer(config, layer);
  spec.residual = Residual::kPostNorm;
  spec.modules = {
      conv1d(fused_attention(config, "attn.c_attn", AttentionSpec::Fused::kConcatenated, spec)),
      conv1d(matrix(Role::kAttentionOut, "attn.c_proj", hidden, hidden, config.o_bias)),
      norm(config, Role::kPostAttentionNorm, "ln_1", hidden),
      conv1d(matrix(Role::kUp, "mlp.c_fc", width, hidden, config.mlp_bias)),
      conv1d(matrix(Role::kDown, "mlp.c_proj", hidden, width, config.mlp_bias)),
      norm(config, Role::kPostFeedForwardNorm, "ln_2", hidden),
  };
  return spec;
}

}  // namespace

const Family kOpenaiGpt = {
    .model_type = "openai-gpt",
    .description = "GPT decoder: GPT-2's with norms after the residual sums",
    .layer_class = "transformers.models.openai.modeling_openai.Block",
    .keys = gpt_keys(/*width=*/"", "afn"),
    .defaults = {.max_position_embeddings = 512,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu",
                 .intermediate_ratio = 4},
    .runs = false,
    .rotary = false,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = {.embedding = "transformer.tokens_embed",
              .positions = "transformer.positions_embed",
              .layers = "transformer.h",
              .norm = ""},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
