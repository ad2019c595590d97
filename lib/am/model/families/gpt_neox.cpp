// GPT-NeoX (20B, Pythia): one matrix for queries, keys and values, RoPE over a part of each head,
// and an MLP without a gate, usually in parallel with attention.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

constexpr double kRotatedPart = 0.25;
constexpr double kTheta = 10000.0;

// Reads the keys of GPT-NeoX. Older configs state the rotary embedding by rotary_pct and
// rotary_emb_base.
void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = config.o_bias = reader.boolean("attention_bias").value_or(true);
  config.mlp_bias = config.norm_bias = true;
  config.gated_mlp = false;
  config.parallel_block = reader.boolean("use_parallel_residual").value_or(true);
  set_rotated_part(reader, config, reader.number("rotary_pct", 0.0, 1.0).value_or(kRotatedPart));
  if (!has_rope_key(reader, "rope_theta")) {
    config.rope.theta = reader.number("rotary_emb_base", 1.0, kMaxTheta).value_or(kTheta);
  }
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  if (config.parallel_block) spec.residual = Residual::kParallelTwoNorms;
  add_norms(config, spec, kLlamaNorms);
  spec.modules.push_back(
      fused_attention(config, "attention.query_key_value", AttentionSpec::Fused::kByKeyHead, spec));
  spec.modules.push_back(matrix(Role::kAttentionOut, "attention.dense", config.hidden_size,
                                config.hidden_size, config.o_bias));
  add_plain_mlp(config, spec, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
  return spec;
}

}  // namespace

const Family kGptNeox = {
    .model_type = "gpt_neox",
    .description = "GPT-NeoX decoder: partly rotated attention and a plain MLP side by side",
    .layer_class = "transformers.models.gpt_neox.modeling_gpt_neox.GPTNeoXLayer",
    .keys = {.key_value_heads = "", .head_dim = "", .norm_eps = "layer_norm_eps"},
    .defaults = {.max_position_embeddings = 2048, .norm_eps = 1e-5, .hidden_act = "gelu"},
    .rotates_part = true,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = {.embedding = "gpt_neox.embed_in",
              .layers = "gpt_neox.layers",
              .norm = "gpt_neox.final_layer_norm",
              .head = "embed_out"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
