// GPT-NeoX-Japanese: GPT-NeoX's matrix for queries, keys and values, and an MLP without a gate
// after attention. Norms have biases. The only projection with a bias is attention's output in the
// last layer.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kMultiple = 4;

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.norm_bias = true;
  config.gated_mlp = false;
  config.intermediate_size =
      config.hidden_size *
      reader.integer("intermediate_multiple_size", 1, int64_t{1} << 10).value_or(kMultiple);
  set_rotated_part(reader, config, reader.number("rotary_pct", 0.0, 1.0).value_or(1.0));
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_norms(config, spec, kLlamaNorms);
  if (layer == config.num_hidden_layers - 1) {
    spec.modules.push_back(other_vector("attention", config.hidden_size, "dense_bias"));
  }
  spec.modules.push_back(
      fused_attention(config, "attention.query_key_value", AttentionSpec::Fused::kByKeyHead, spec));
  spec.modules.push_back(
      matrix(Role::kAttentionOut, "attention.dense", config.hidden_size, config.hidden_size));
  add_plain_mlp(config, spec, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
  return spec;
}

}  // namespace

const Family kGptNeoxJapanese = {
    .model_type = "gpt_neox_japanese",
    .description = "GPT-NeoX-Japanese decoder: GPT-NeoX's attention, then a plain MLP",
    .layer_class =
        "transformers.models.gpt_neox_japanese.modeling_gpt_neox_japanese.GPTNeoXJapaneseLayer",
    .keys = {.intermediate_size = "",
             .key_value_heads = "",
             .head_dim = "",
             .norm_eps = "layer_norm_eps"},
    .defaults = {.max_position_embeddings = 2048,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu",
                 .intermediate_ratio = kMultiple},
    .runs = false,
    .rotates_part = true,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = {.embedding = "gpt_neox_japanese.embed_in",
              .layers = "gpt_neox_japanese.layers",
              .norm = "gpt_neox_japanese.final_layer_norm",
              .head = "embed_out"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
