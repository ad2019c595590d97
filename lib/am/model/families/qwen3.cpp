// Qwen3 (dense): the Llama decoder with RMSNorm over each query and key head, and its own head
// size.
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  const bool attention_bias = reader.boolean("attention_bias").value_or(false);
  config.qkv_bias = attention_bias;
  config.o_bias = attention_bias;
  config.qk_norm = true;
  read_qwen_window(reader, config);
}

}  // namespace

const Family kQwen3 = {
    .model_type = "qwen3",
    .description = "Qwen3 decoder: Llama's, with q_norm and k_norm over every head",
    .max_position_embeddings = 32768,
    .key_value_heads = 32,
    .head_dim = 128,
    .read_config = read_config,
};

}  // namespace am::model
