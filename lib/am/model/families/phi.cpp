// Phi-1, 1.5 and 2: attention and an MLP without a gate, in parallel after one LayerNorm. All
// projections, the norms and the head have biases.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kRotatedPart = 0.5;

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = config.o_bias = config.mlp_bias = config.head_bias = true;
  config.norm_bias = true;
  config.gated_mlp = false;
  config.parallel_block = true;
  config.hidden_norms = 1;
  set_rotated_part(reader, config, kRotatedPart);
  config.qk_norm = reader.boolean("qk_layernorm").value_or(false);
}

constexpr std::array<NamedNorm, 1> kNorms = {{{Role::kInputNorm, "input_layernorm"}}};

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  spec.residual = Residual::kParallelOneNorm;
  add_attention(config, spec,
                {.output = "self_attn.dense",
                 .query_norm = "self_attn.q_layernorm",
                 .key_norm = "self_attn.k_layernorm"});
  add_plain_mlp(config, spec, "mlp.fc1", "mlp.fc2");
  add_norms(config, spec, kNorms);
  return spec;
}

}  // namespace

const Family kPhi = {
    .model_type = "phi",
    .description = "Phi decoder: attention and MLP side by side after one LayerNorm, with biases",
    .layer_class = "transformers.models.phi.modeling_phi.PhiDecoderLayer",
    .keys = {.norm_eps = "layer_norm_eps"},
    .defaults = {.max_position_embeddings = 2048, .norm_eps = 1e-5, .hidden_act = "gelu_new"},
    .rotates_part = true,
    .norm = NormKind::kLayer,
    .names = {.norm = "model.final_layernorm"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
