// Qwen3 (dense): the Llama decoder with RMSNorm over each query and key head, and a head_dim that
// is independent of hidden_size.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  read_qwen_window(reader, config);
}

}  // namespace

const Family kQwen3 = {
    .model_type = "qwen3",
    .description = "Qwen3 decoder: Llama's, with q_norm and k_norm over every head",
    .layer_class = "transformers.models.qwen3.modeling_qwen3.Qwen3DecoderLayer",
    .defaults = {.max_position_embeddings = 32768, .key_value_heads = 32, .head_dim = 128},
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
