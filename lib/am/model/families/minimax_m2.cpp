// MiniMax-M2: RoPE over a part of each head, norms over all query and all key heads together, and
// experts in every layer. Sigmoid scores and a correction bias choose the experts.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

// Reads the keys of MiniMax-M2. In the configs on the hub, rotary_dim is the rotated width of a
// head.
void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qk_norm = true;
  config.qk_norm_spans_heads = true;
  const auto rotated = read_rotary_dim(reader, config);
  if (rotated.has_value()) {
    set_rotated_part(reader, config,
                     static_cast<double>(*rotated) / static_cast<double>(config.head_dim));
  }
  read_moe(reader, config,
           {.experts = {"num_local_experts", "num_experts"},
            .default_experts = 256,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 8,
            .width = "intermediate_size",
            .default_width = 1536});
  read_jitter(reader, config);
  if (config.moe.has_value()) config.moe->normalise = true;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  spec.modules.push_back(vector(Role::kRouterCorrection, "block_sparse_moe",
                                "e_score_correction_bias", config.moe->experts, Init::kZeros));
  add_router(config, spec, "block_sparse_moe.gate");
  add_experts(config, spec, "block_sparse_moe.experts", {.gate = "w1", .up = "w3", .down = "w2"});
  add_norms(config, spec, kLlamaNorms);
  spec.router->score = RouterSpec::Score::kSigmoid;
  return spec;
}

}  // namespace

const Family kMinimaxM2 = {
    .model_type = "minimax_m2",
    .description = "MiniMax-M2 decoder: partly rotated attention, experts by sigmoid scores",
    .layer_class = "transformers.models.minimax_m2.modeling_minimax_m2.MiniMaxM2DecoderLayer",
    .defaults = {.max_position_embeddings = 196608,
                 .key_value_heads = 8,
                 .head_dim = 128,
                 .rope_theta = 5000000.0},
    .rotates_part = true,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
