// Qwen3-MoE (Qwen3-30B-A3B, Qwen3-235B-A22B): Qwen3 with experts instead of the MLP.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

// Reads the keys of Qwen3-MoE. If use_sliding_window is true, the window applies to every layer.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  if (reader.boolean("use_sliding_window").value_or(false)) read_window(reader, config, 4096);
  read_moe(reader, config,
           {.experts = {"num_experts", "num_local_experts"},
            .default_experts = 128,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 8,
            .width = "moe_intermediate_size",
            .default_width = 768},
           /*may_be_dense=*/true);
  read_normalisation(reader, config, false);
  read_sparse_layers(reader, config);
}

}  // namespace

const Family kQwen3Moe = {
    .model_type = "qwen3_moe",
    .description = "Qwen3-MoE decoder: Qwen3's with routed experts",
    .layer_class = "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeDecoderLayer",
    .defaults = {.max_position_embeddings = 32768, .key_value_heads = 4},
    .read_config = read_config,
    .describe_layer = expert_layer,
};

}  // namespace am::model
