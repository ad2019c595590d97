// Computation of one decoder layer per token, before sharding: enough to count FLOPs and saved
// activations without tensors or parameter names.
//
//   for (const LayerKind& kind : layer_kinds(config)) {
//     const double weights = layer_matmul_parameters(kind.profile, config.hidden_size);
//     flops += 2.0 * kind.layers.size() * weights;
//   }
//
// Sizes count elements (heads, widths, positions). A profile is the part of a LayerSpec (spec.h)
// that the time model needs. Measured runs of models without a config have a profile too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "am/model/spec.h"

namespace am::model {

struct AttentionProfile {
  int64_t heads = 0;
  int64_t key_value_heads = 0;  // as attention reads them: equal to `heads` under MLA
  int64_t qk_head_dim = 0;
  int64_t v_head_dim = 0;  // differs from qk_head_dim under MLA only
  // MLA only, otherwise 0. Under MLA, q_lora_rank = 0: queries are projected from the hidden state.
  int64_t q_lora_rank = 0;
  int64_t kv_lora_rank = 0;
  int64_t rope_head_dim = 0;  // rotated part of qk_head_dim, shared by all heads' keys
  // Norms between projection and attention: elements normalised per token, all heads together. 0:
  // no such norms.
  int64_t norm_width = 0;
  std::optional<int64_t> window;  // number of positions a token attends to, itself included

  bool operator==(const AttentionProfile&) const = default;
};

struct FeedForwardProfile {
  bool gated = true;        // gate, up and down; else up and down
  int64_t dense_width = 0;  // width of the dense MLP that every token passes (0: none)
  int64_t experts = 0;      // routed experts (0: none)
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;  // width of one routed expert
  int64_t shared_width = 0;  // total width of all shared experts
  bool shared_gate = false;  // a scalar gate per token scales the shared experts' output

  bool operator==(const FeedForwardProfile&) const = default;
};

struct LayerProfile {
  AttentionProfile attention;
  FeedForwardProfile feed_forward;
  int hidden_norms = 2;         // norms over hidden_size (4 in Gemma 2 and 3, 1 in parallel blocks)
  bool parallel_block = false;  // attention and MLP read the same residual stream

  bool operator==(const LayerProfile&) const = default;
};

LayerProfile layer_profile(const LayerSpec& layer);
// `layer` is in [0, num_hidden_layers).
LayerProfile layer_profile(const ModelConfig& config, int64_t layer);

// A maximal run of consecutive layers with equal profiles: DeepSeek's dense first layers, then
// those with experts. A window pattern makes many runs.
struct LayerRun {
  int64_t first = 0;
  int64_t count = 0;
  LayerProfile profile;
};
std::vector<LayerRun> layer_runs(const ModelConfig& config);

// A distinct profile and the layers that have it, in order of first appearance.
struct LayerKind {
  std::vector<int> layers;
  LayerProfile profile;
};
std::vector<LayerKind> layer_kinds(const ModelConfig& config);

// Weights that one token is multiplied with in the layer: projections, the dense MLP, the experts
// it is routed to, shared experts, the router. Biases and norm weights are not counted.
double layer_matmul_parameters(const LayerProfile& profile, int64_t hidden_size);

}  // namespace am::model
