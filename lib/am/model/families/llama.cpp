// Llama 1 to 3.x, and the many models that reuse its config, for example Yi, SmolLM2 and TinyLlama.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
}

}  // namespace

const Family kLlama = {
    .model_type = "llama",
    .description = "Llama decoder: RMSNorm, rotary embedding, grouped-query attention, SwiGLU",
    .layer_class = "transformers.models.llama.modeling_llama.LlamaDecoderLayer",
    .defaults = {.max_position_embeddings = 2048,
                 .vocab_size = 32000,
                 .hidden_size = 4096,
                 .intermediate_size = 11008,
                 .layers = 32,
                 .heads = 32},
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
