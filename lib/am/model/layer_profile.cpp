#include "am/model/layer_profile.h"

#include <algorithm>

namespace am::model {
namespace {

AttentionProfile attention_profile(const ModelConfig& config, int64_t layer) {
  AttentionProfile attention;
  attention.heads = config.num_attention_heads;
  attention.window = window_of(config, layer);
  if (config.mla.has_value()) {
    const MlaConfig& mla = *config.mla;
    attention.key_value_heads = attention.heads;
    attention.qk_head_dim = mla.qk_head_dim();
    attention.v_head_dim = mla.v_head_dim;
    attention.q_lora_rank = mla.q_lora_rank;
    attention.kv_lora_rank = mla.kv_lora_rank;
    attention.rope_head_dim = mla.qk_rope_head_dim;
    attention.norm_width = mla.q_lora_rank + mla.kv_lora_rank;
    return attention;
  }
  attention.key_value_heads = config.num_key_value_heads;
  attention.qk_head_dim = config.head_dim;
  attention.v_head_dim = config.head_dim;
  if (config.qk_norm) {
    attention.norm_width = (attention.heads + attention.key_value_heads) * config.head_dim;
  }
  return attention;
}

FeedForwardProfile feed_forward_profile(const ModelConfig& config, int64_t layer) {
  FeedForwardProfile feed_forward;
  feed_forward.gated = config.gated_mlp;
  if (!has_experts(config, layer)) {
    feed_forward.dense_width = config.intermediate_size;
    return feed_forward;
  }
  const MoeConfig& moe = *config.moe;
  feed_forward.experts = moe.experts;
  feed_forward.experts_per_token = moe.experts_per_token;
  feed_forward.expert_width = moe.expert_width;
  feed_forward.shared_width = moe.shared_width;
  feed_forward.shared_gate = moe.shared_gate;
  return feed_forward;
}

double attention_matmul_parameters(const AttentionProfile& attention, double hidden) {
  const auto heads = static_cast<double>(attention.heads);
  const auto key_value_heads = static_cast<double>(attention.key_value_heads);
  const auto qk = static_cast<double>(attention.qk_head_dim);
  const auto v = static_cast<double>(attention.v_head_dim);
  const double out = heads * v * hidden;
  if (attention.kv_lora_rank == 0) {
    return hidden * (heads * qk + key_value_heads * (qk + v)) + out;
  }
  const auto q_rank = static_cast<double>(attention.q_lora_rank);
  const auto kv_rank = static_cast<double>(attention.kv_lora_rank);
  const auto rope = static_cast<double>(attention.rope_head_dim);
  const double queries = q_rank > 0.0 ? q_rank * (hidden + heads * qk) : hidden * heads * qk;
  return queries + hidden * (kv_rank + rope) + kv_rank * heads * (qk - rope + v) + out;
}

}  // namespace

LayerProfile layer_profile(const ModelConfig& config, int64_t layer) {
  return {.attention = attention_profile(config, layer),
          .feed_forward = feed_forward_profile(config, layer),
          .hidden_norms = config.hidden_norms,
          .parallel_block = config.parallel_block};
}

std::vector<LayerRun> layer_runs(const ModelConfig& config) {
  std::vector<LayerRun> runs;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const LayerProfile profile = layer_profile(config, layer);
    if (runs.empty() || runs.back().profile != profile) {
      runs.push_back({.first = layer, .count = 0, .profile = profile});
    }
    ++runs.back().count;
  }
  return runs;
}

std::vector<LayerKind> layer_kinds(const ModelConfig& config) {
  std::vector<LayerKind> kinds;
  for (const LayerRun& run : layer_runs(config)) {
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const LayerKind& known) { return known.profile == run.profile; });
    if (kind == kinds.end())
      kind = kinds.insert(kinds.end(), {.layers = {}, .profile = run.profile});
    for (int64_t i = 0; i < run.count; ++i) {
      kind->layers.push_back(static_cast<int>(run.first + i));
    }
  }
  return kinds;
}

double layer_matmul_parameters(const LayerProfile& profile, int64_t hidden_size) {
  const auto hidden = static_cast<double>(hidden_size);
  const FeedForwardProfile& feed_forward = profile.feed_forward;
  const double matrices = feed_forward.gated ? 3.0 : 2.0;
  const auto active_width = static_cast<double>(
      feed_forward.dense_width + feed_forward.experts_per_token * feed_forward.expert_width +
      feed_forward.shared_width);
  const double router =
      static_cast<double>(feed_forward.experts) + (feed_forward.shared_gate ? 1.0 : 0.0);
  return attention_matmul_parameters(profile.attention, hidden) +
         hidden * (matrices * active_width + router);
}

}  // namespace am::model
