// BitNet b1.58: the Llama decoder with a norm before o_proj and before down_proj. Weights are
// planned as they are trained, in the plan's dtype, not as ternary values.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) { read_attention_bias(reader, config); }

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = llama_layer(config, layer);
  spec.modules.push_back(other_vector("self_attn.attn_sub_norm", config.hidden_size));
  spec.modules.push_back(other_vector("mlp.ffn_sub_norm", config.intermediate_size));
  return spec;
}

}  // namespace

const Family kBitnet = {
    .model_type = "bitnet",
    .description = "BitNet decoder: Llama's with norms before the output projections",
    .layer_class = "transformers.models.bitnet.modeling_bitnet.BitNetDecoderLayer",
    .defaults = {.max_position_embeddings = 2048,
                 .key_value_heads = 5,
                 .norm_eps = 1e-5,
                 .rope_theta = 500000.0,
                 .hidden_act = "relu2"},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
