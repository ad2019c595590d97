// Phi-3 and Phi-4: the Llama decoder with one matrix for queries, keys and values, and one matrix
// for gate and up.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) { read_window(reader, config, 0); }

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const int64_t hidden = config.hidden_size;
  LayerSpec spec = start_layer(config, layer);
  spec.modules.push_back(matrix(Role::kAttentionOut, "self_attn.o_proj", hidden,
                                config.num_attention_heads * config.head_dim));
  spec.modules.push_back(
      fused_attention(config, "self_attn.qkv_proj", AttentionSpec::Fused::kConcatenated, spec));
  add_fused_mlp(config, spec, "mlp.gate_up_proj", "mlp.down_proj");
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kPhi3 = {
    .model_type = "phi3",
    .description =
        "Phi-3 decoder: Llama's, queries, keys and values in one matrix, gate and up in one",
    .layer_class = "transformers.models.phi3.modeling_phi3.Phi3DecoderLayer",
    .defaults = {.max_position_embeddings = 4096, .norm_eps = 1e-5, .pad_token_id = 32000},
    .rotates_part = true,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
