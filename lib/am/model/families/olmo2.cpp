// OLMo 2: the Llama decoder with norms after attention and MLP, and norms over all query and all
// key heads together.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  config.qk_norm_spans_heads = true;
}

constexpr std::array<NamedNorm, 2> kNorms = {
    {{Role::kPostAttentionNorm, "post_attention_layernorm"},
     {Role::kPostFeedForwardNorm, "post_feedforward_layernorm"}}};

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  spec.residual = Residual::kPostNorm;
  add_attention(config, spec);
  add_gated_mlp(config, spec);
  add_norms(config, spec, kNorms);
  return spec;
}

}  // namespace

const Family kOlmo2 = {
    .model_type = "olmo2",
    .description = "OLMo 2 decoder: Llama's with norms after attention and MLP and over all heads",
    .layer_class = "transformers.models.olmo2.modeling_olmo2.Olmo2DecoderLayer",
    .defaults = {.max_position_embeddings = 2048, .norm_eps = 1e-5, .pad_token_id = 1},
    .norm = NormKind::kRmsWide,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
