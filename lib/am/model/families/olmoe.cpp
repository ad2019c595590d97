// OLMoE: the Llama decoder with experts in every layer, and norms over all query and all key heads
// together.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  config.qk_norm_spans_heads = true;
  config.qkv_limit = read_switchable(reader, "clip_qkv", std::nullopt);
  read_moe(reader, config,
           {.experts = {"num_experts", "num_local_experts"},
            .default_experts = 64,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 8,
            .width = "intermediate_size",
            .default_width = 2048});
  read_normalisation(reader, config, false);
}

}  // namespace

const Family kOlmoe = {
    .model_type = "olmoe",
    .description = "OLMoE decoder: routed experts, q_norm and k_norm over all heads",
    .layer_class = "transformers.models.olmoe.modeling_olmoe.OlmoeDecoderLayer",
    .keys = {.head_dim = ""},  // not read: q_norm always has hidden_size weights
    .defaults = {.max_position_embeddings = 4096, .norm_eps = 1e-5, .pad_token_id = 1},
    .read_config = read_config,
    .describe_layer = expert_layer,
};

}  // namespace am::model
