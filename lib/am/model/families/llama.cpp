// Llama 1 to 3.x and the many models that took over its config: Yi, SmolLM2, TinyLlama, ...
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  const bool attention_bias = reader.boolean("attention_bias").value_or(false);
  config.qkv_bias = attention_bias;
  config.o_bias = attention_bias;
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
}

}  // namespace

const Family kLlama = {
    .model_type = "llama",
    .description = "Llama decoder: RMSNorm, rotary embedding, grouped-query attention, SwiGLU",
    .max_position_embeddings = 2048,
    .key_value_heads = std::nullopt,
    .head_dim = std::nullopt,
    .read_config = read_config,
};

}  // namespace am::model
