// What one decoder layer computes for one token, before any cut: enough to count its operations and
// what autograd saves, without a tensor and without its parameters' names.
//
//   for (const LayerKind& kind : layer_kinds(config)) {
//     flops += 2.0 * kind.layers.size() * layer_matmul_parameters(kind.profile,
//     config.hidden_size);
//   }
//
// Sizes count elements (heads, widths, positions). A profile is what the time model needs of a
// LayerSpec (spec.h): measured runs of models without a config have one too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "am/model/spec.h"

namespace am::model {

struct AttentionProfile {
  int64_t heads = 0;
  int64_t key_value_heads = 0;  // as attention reads them: all of them under MLA
  int64_t qk_head_dim = 0;
  int64_t v_head_dim = 0;  // differs from qk_head_dim under MLA only
  // MLA only; 0 elsewhere. q_lora_rank = 0 under MLA: queries come straight from the hidden state.
  int64_t q_lora_rank = 0;
  int64_t kv_lora_rank = 0;
  int64_t rope_head_dim = 0;  // the part of qk_head_dim that is rotated, one for all heads' keys
  int64_t norm_width = 0;     // norms between projection and attention: elements normalised
                              // per token, all heads together (0: none)
  std::optional<int64_t> window;  // looks back at most so many positions, itself included

  bool operator==(const AttentionProfile&) const = default;
};

struct FeedForwardProfile {
  bool gated = true;        // gate, up and down; else up and down
  int64_t dense_width = 0;  // of the dense MLP that every token passes (0: none)
  int64_t experts = 0;      // routed experts (0: none), of which each token takes some
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;  // of one routed expert
  int64_t shared_width = 0;  // of all shared experts together
  bool shared_gate = false;  // a number per token weighs the shared experts' output

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
// `layer` in [0, num_hidden_layers).
LayerProfile layer_profile(const ModelConfig& config, int64_t layer);

// Consecutive layers that are equal, in order: DeepSeek's dense first layers, then those with
// experts. A window pattern makes many runs.
struct LayerRun {
  int64_t first = 0;
  int64_t count = 0;
  LayerProfile profile;
};
std::vector<LayerRun> layer_runs(const ModelConfig& config);

// The distinct profiles, in order of first appearance, and the layers that have each.
struct LayerKind {
  std::vector<int> layers;
  LayerProfile profile;
};
std::vector<LayerKind> layer_kinds(const ModelConfig& config);

// Weights of the layer that one token is multiplied with: projections, the dense MLP, the experts
// that it takes, shared experts, the router. Biases and norms are not multiplied with a matrix.
double layer_matmul_parameters(const LayerProfile& profile, int64_t hidden_size);

}  // namespace am::model
