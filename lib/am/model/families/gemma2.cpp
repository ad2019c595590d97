// Gemma 2: Gemma 1 with norms before and after attention and MLP, and a sliding window in every
// second layer.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kDefaultWindow = 4096;

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.hidden_norms = 4;
  config.query_scalar = read_switchable(reader, "query_pre_attn_scalar", 256.0);
  config.attention_softcap = read_switchable(reader, "attn_logit_softcapping", 50.0);
  config.logit_softcap = read_switchable(reader, "final_logit_softcapping", 30.0);
  read_window(reader, config, kDefaultWindow);
  read_window_layers(reader, config, 2);
}

}  // namespace

const Family kGemma2 = {
    .model_type = "gemma2",
    .description = "Gemma 2 decoder: four norms per layer, a sliding window in every second layer",
    .layer_class = "transformers.models.gemma2.modeling_gemma2.Gemma2DecoderLayer",
    .keys = {.activation = "hidden_activation"},
    .defaults = {.max_position_embeddings = 8192,
                 .key_value_heads = 4,
                 .head_dim = 256,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu_pytorch_tanh",
                 .pad_token_id = 0},
    .norm = NormKind::kRmsPlusOne,
    .scales_embedding = true,
    .read_config = read_config,
    .describe_layer = sandwich_layer,
};

}  // namespace am::model
