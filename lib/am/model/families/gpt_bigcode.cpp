// GPT-BigCode (SantaCoder, StarCoder): GPT-2's decoder with weights stored [out, in] and, usually,
// one key/value head for all query heads.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/gpt.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  rotate_no_layer(config);
  config.scales_attention = reader.boolean("scale_attn_weights").value_or(true);
  config.qkv_bias = config.o_bias = config.mlp_bias = config.norm_bias = true;
  config.gated_mlp = false;
  if (reader.boolean("multi_query").value_or(true)) config.num_key_value_heads = 1;
  require_boolean(reader, "add_cross_attention", false, "cross-attention is not supported");
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const int64_t hidden = config.hidden_size;
  LayerSpec spec = start_layer(config, layer);
  if (!config.scales_attention) spec.attention.scale = 1.0;
  const auto fused = config.num_key_value_heads == 1 ? AttentionSpec::Fused::kConcatenated
                                                     : AttentionSpec::Fused::kByKeyHead;
  spec.modules = {
      norm(config, Role::kInputNorm, "ln_1", hidden),
      fused_attention(config, "attn.c_attn", fused, spec),
      matrix(Role::kAttentionOut, "attn.c_proj", hidden, hidden, config.o_bias),
      norm(config, Role::kPreFeedForwardNorm, "ln_2", hidden),
  };
  add_plain_mlp(config, spec, "mlp.c_fc", "mlp.c_proj");
  return spec;
}

}  // namespace

const Family kGptBigcode = {
    .model_type = "gpt_bigcode",
    .description = "GPT-BigCode decoder: GPT-2's with multi-query attention",
    .layer_class = "transformers.models.gpt_bigcode.modeling_gpt_bigcode.GPTBigCodeBlock",
    .keys = gpt_keys(),
    .defaults = {.max_position_embeddings = 1024,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu_pytorch_tanh",
                 .intermediate_ratio = 4},
    .runs = false,
    .rotary = false,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = kGptNames,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
