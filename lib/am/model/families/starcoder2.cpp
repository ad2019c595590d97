// StarCoder 2: LayerNorm, an MLP without a gate, and biases on projections and norms.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  const bool bias = reader.boolean("use_bias").value_or(true);
  config.qkv_bias = config.o_bias = config.mlp_bias = bias;
  config.norm_bias = true;
  config.gated_mlp = false;
  read_window(reader, config, 0);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_plain_mlp(config, spec, "mlp.c_fc", "mlp.c_proj");
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kStarcoder2 = {
    .model_type = "starcoder2",
    .description = "StarCoder 2 decoder: LayerNorm and a plain MLP, with biases",
    .layer_class = "transformers.models.starcoder2.modeling_starcoder2.Starcoder2DecoderLayer",
    .keys = {.norm_eps = "norm_epsilon"},
    .defaults = {.max_position_embeddings = 4096,
                 .key_value_heads = 2,
                 .norm_eps = 1e-5,
                 .initializer_range = 0.018042,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu_pytorch_tanh"},
    .norm = NormKind::kLayer,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
