// HyperCLOVA X SEED: Granite's decoder, with norms after attention and MLP too.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  read_granite_factors(reader, config);
  if (reader.raw("attention_multiplier").is_null()) config.attention_scale.reset();
  config.hidden_norms = reader.boolean("use_post_norm").value_or(true) ? 4 : 2;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 2> kPost = {
      {{Role::kPostAttentionNorm, "post_norm1"}, {Role::kPostFeedForwardNorm, "post_norm2"}}};
  LayerSpec spec = llama_layer(config, layer);
  if (config.hidden_norms == 2) return spec;
  spec.residual = Residual::kSandwich;
  add_norms(config, spec, kPost);
  return spec;
}

}  // namespace

const Family kHyperclovax = {
    .model_type = "hyperclovax",
    .description = "HyperCLOVA X decoder: Granite's with norms after attention and MLP too",
    .layer_class = "transformers.models.hyperclovax.modeling_hyperclovax.HyperCLOVAXDecoderLayer",
    .defaults = {.max_position_embeddings = 2048},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
