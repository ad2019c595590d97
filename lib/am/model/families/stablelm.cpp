// StableLM (3B, 2, Zephyr): LayerNorm, RoPE over a part of each head, and a gated MLP, either after
// attention or in parallel with it.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kRotatedPart = 0.25;

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = reader.boolean("use_qkv_bias").value_or(false);
  config.norm_bias = true;
  config.parallel_block = reader.boolean("use_parallel_residual").value_or(false);
  config.hidden_norms = config.parallel_block ? 1 : 2;
  set_rotated_part(reader, config, kRotatedPart);
  require_boolean(reader, "qk_layernorm", false,
                  "StableLM's norms with weights of their own for every head are not supported");
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  return config.parallel_block ? parallel_layer(config, layer) : llama_layer(config, layer);
}

}  // namespace

const Family kStablelm = {
    .model_type = "stablelm",
    .description = "StableLM decoder: LayerNorm, partly rotated attention, a gated MLP",
    .layer_class = "transformers.models.stablelm.modeling_stablelm.StableLmDecoderLayer",
    .keys = {.head_dim = "", .norm_eps = "layer_norm_eps"},
    .defaults = {.max_position_embeddings = 4096, .key_value_heads = 32, .norm_eps = 1e-5},
    .rotates_part = true,
    .norm = NormKind::kLayer,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
