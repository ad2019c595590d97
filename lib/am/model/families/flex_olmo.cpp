// FlexOlmo: OLMo 2's attention and norms, with experts in every layer.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  config.qk_norm_spans_heads = true;
  read_moe(reader, config,
           {.experts = {"num_experts", "num_local_experts"},
            .default_experts = 7,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 5,
            .width = "intermediate_size",
            .default_width = 11008});
  read_normalisation(reader, config, false);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  spec.residual = Residual::kPostNorm;
  add_attention(config, spec);
  add_router(config, spec, "mlp.gate");
  add_experts(config, spec, "mlp.experts");
  add_norms(config, spec, kPostNorms);
  return spec;
}

}  // namespace

const Family kFlexOlmo = {
    .model_type = "flex_olmo",
    .description = "FlexOlmo decoder: OLMo 2's with experts in every layer",
    .layer_class = "transformers.models.flex_olmo.modeling_flex_olmo.FlexOlmoDecoderLayer",
    .defaults = {.max_position_embeddings = 4096, .rope_theta = 500000.0, .pad_token_id = 100277},
    .runs = false,
    .norm = NormKind::kRmsWide,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
