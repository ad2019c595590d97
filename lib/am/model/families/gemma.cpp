// Gemma 1: the Llama decoder with wide heads, GELU gates, norms that multiply by 1 + weight, and a
// tied head.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  // The first releases' configs state "gelu", but transformers computes the tanh approximation for
  // this value.
  if (config.hidden_act == "gelu") config.hidden_act = "gelu_pytorch_tanh";
}

}  // namespace

const Family kGemma = {
    .model_type = "gemma",
    .description = "Gemma decoder: Llama's with wide heads, GeGLU and a tied head",
    .layer_class = "transformers.models.gemma.modeling_gemma.GemmaDecoderLayer",
    .defaults = {.max_position_embeddings = 8192,
                 .key_value_heads = 16,
                 .head_dim = 256,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu_pytorch_tanh",
                 .pad_token_id = 0,
                 .vocab_size = 256000,
                 .hidden_size = 3072,
                 .intermediate_size = 24576,
                 .layers = 28,
                 .heads = 16},
    .norm = NormKind::kRmsPlusOne,
    .scales_embedding = true,
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
