// Qwen2 and Qwen2.5: the Llama decoder with biases on the query, key and value projections.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = true;
  read_qwen_window(reader, config);
}

}  // namespace

const Family kQwen2 = {
    .model_type = "qwen2",
    .description = "Qwen2 decoder: Llama's, with biases on q_proj, k_proj and v_proj",
    .layer_class = "transformers.models.qwen2.modeling_qwen2.Qwen2DecoderLayer",
    .defaults = {.max_position_embeddings = 32768, .key_value_heads = 32},
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
