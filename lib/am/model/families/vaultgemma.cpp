// VaultGemma: Gemma 2's decoder, with norms before attention and MLP only.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 4096;
constexpr double kQueryScalar = 256.0;

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.query_scalar = reader.number("query_pre_attn_scalar", 1e-9, 1e9).value_or(kQueryScalar);
  config.attention_softcap = read_switchable(reader, "attn_logit_softcapping", 50.0);
  config.logit_softcap = read_switchable(reader, "final_logit_softcapping", 30.0);
  read_window(reader, config, kWindow);
  read_window_layers(reader, config, 2);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 2> kNorms = {
      {{Role::kInputNorm, "input_layernorm"},
       {Role::kPreFeedForwardNorm, "pre_feedforward_layernorm"}}};
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_gated_mlp(config, spec);
  add_norms(config, spec, kNorms);
  return spec;
}

}  // namespace

const Family kVaultgemma = {
    .model_type = "vaultgemma",
    .description = "VaultGemma decoder: Gemma 2's with two norms per layer",
    .layer_class = "transformers.models.vaultgemma.modeling_vaultgemma.VaultGemmaDecoderLayer",
    .keys = {.activation = "hidden_activation"},
    .defaults = {.max_position_embeddings = 8192,
                 .key_value_heads = 4,
                 .head_dim = 256,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu_pytorch_tanh",
                 .pad_token_id = 0},
    .runs = false,
    .norm = NormKind::kRmsPlusOne,
    .scales_embedding = true,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
