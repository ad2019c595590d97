#include "am/model/layer_profile.h"

#include <algorithm>

namespace am::model {
namespace {

int64_t out_of(const LayerSpec& layer, Role role) {
  const ModuleSpec* module = layer.find(role);
  return module == nullptr ? 0 : module->out;
}

int64_t slice_of(const ModuleSpec& module, Role role) {
  for (const Slice& slice : module.slices) {
    if (slice.role == role) return slice.length;
  }
  return 0;
}

AttentionProfile attention_profile(const LayerSpec& layer) {
  const AttentionSpec& spec = layer.attention;
  AttentionProfile attention;
  attention.heads = spec.heads;
  attention.key_value_heads = spec.key_heads;
  attention.qk_head_dim = spec.qk_width;
  attention.v_head_dim = spec.v_width;
  attention.gated = spec.gated;
  attention.window = spec.window;
  if (const ModuleSpec* down = layer.find(Role::kKeyValueDown)) {
    attention.q_lora_rank = out_of(layer, Role::kQueryDown);
    attention.kv_lora_rank = slice_of(*down, Role::kKeyValueDown);
    attention.rope_head_dim = slice_of(*down, Role::kKey);
    attention.norm_width = attention.q_lora_rank + attention.kv_lora_rank;
  } else if (layer.has(Role::kQueryNorm)) {
    attention.norm_width = (spec.heads + spec.key_heads) * spec.qk_width;
  }
  return attention;
}

FeedForwardProfile feed_forward_profile(const LayerSpec& layer) {
  FeedForwardProfile feed_forward;
  feed_forward.gated = layer.gated;
  for (const ModuleSpec& module : layer.modules) {
    if (module.role == Role::kDown) feed_forward.dense_width = module.in;
    if (module.role == Role::kExpertDown) feed_forward.expert_width = module.in;
    if (module.role == Role::kSharedDown) feed_forward.shared_width = module.in;
  }
  if (!layer.router.has_value()) return feed_forward;
  feed_forward.experts = layer.router->experts;
  feed_forward.experts_per_token = layer.router->top_k;
  feed_forward.shared_gate = layer.has(Role::kSharedWeigher);
  const int64_t input = out_of(layer, Role::kExpertDown);
  if (input != layer.find(Role::kRouter)->in) feed_forward.latent_width = input;
  return feed_forward;
}

double attention_matmul_parameters(const AttentionProfile& attention, double hidden) {
  const auto heads = static_cast<double>(attention.heads);
  const auto key_value_heads = static_cast<double>(attention.key_value_heads);
  const auto qk = static_cast<double>(attention.qk_head_dim);
  const auto v = static_cast<double>(attention.v_head_dim);
  const double out = heads * v * hidden;
  if (attention.kv_lora_rank == 0) {
    const double gates = attention.gated ? out : 0.0;
    return hidden * (heads * qk + key_value_heads * (qk + v)) + gates + out;
  }
  const auto q_rank = static_cast<double>(attention.q_lora_rank);
  const auto kv_rank = static_cast<double>(attention.kv_lora_rank);
  const auto rope = static_cast<double>(attention.rope_head_dim);
  const double queries = q_rank > 0.0 ? q_rank * (hidden + heads * qk) : hidden * heads * qk;
  return queries + hidden * (kv_rank + rope) + kv_rank * heads * (qk - rope + v) + out;
}

}  // namespace

LayerProfile layer_profile(const LayerSpec& layer) {
  return {.attention = attention_profile(layer),
          .feed_forward = feed_forward_profile(layer),
          .hidden_norms = layer.hidden_norms(),
          .parallel_block = layer.parallel(),
          .other_weights = layer.other_weights(),
          .cut_other_weights = layer.other_weights(/*cut=*/true)};
}

LayerProfile layer_profile(const ModelConfig& config, int64_t layer) {
  return layer_profile(describe(config, layer));
}

std::vector<LayerRun> layer_runs(const ModelConfig& config) {
  const DecoderSpec spec = describe(config);
  std::vector<LayerProfile> profiles;
  for (const LayerSpec& kind : spec.kinds) profiles.push_back(layer_profile(kind));
  std::vector<LayerRun> runs;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const auto kind = static_cast<size_t>(spec.kind_of_layer[static_cast<size_t>(layer)]);
    if (runs.empty() || runs.back().profile != profiles[kind]) {
      runs.push_back({.first = layer, .count = 0, .profile = profiles[kind]});
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
    if (kind == kinds.end()) {
      kind = kinds.insert(kinds.end(), {.layers = {}, .profile = run.profile});
    }
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
  const auto width = static_cast<double>(feed_forward.dense_width + feed_forward.shared_width);
  const auto routed =
      static_cast<double>(feed_forward.experts_per_token * feed_forward.expert_width) *
      feed_forward.expert_input(hidden);
  const double router =
      static_cast<double>(feed_forward.experts) + (feed_forward.shared_gate ? 1.0 : 0.0);
  return attention_matmul_parameters(profile.attention, hidden) +
         hidden * (matrices * width + router) + matrices * routed + profile.other_weights;
}

}  // namespace am::model
