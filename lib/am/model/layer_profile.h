// Describes what one decoder layer computes for each token, before sharding. The description has no
// tensors or parameter names, but suffices to count FLOPs and saved activations.
//
//   for (const LayerKind& kind : layer_kinds(config)) {
//     const double weights = layer_matmul_parameters(kind.profile, config.hidden_size);
//     flops += 2.0 * kind.layers.size() * weights;
//   }
//
// Sizes are numbers of elements (heads, widths, positions), not bytes. A LayerProfile contains only
// the properties of a LayerSpec (spec.h) that the time model needs. The time model also makes
// profiles without a LayerSpec, for measured runs of models whose config is not known.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "am/model/spec.h"

namespace am::model {

struct AttentionProfile {
  int64_t heads = 0;
  int64_t key_value_heads = 0;  // number of key/value heads; equal to `heads` under MLA
  int64_t qk_head_dim = 0;
  int64_t v_head_dim = 0;
  bool gated = false;  // the query matrix also returns a gate per element of attention's output
  // The next three sizes are 0 without MLA. q_lora_rank is also 0 if an MLA model projects queries
  // directly from the hidden state.
  int64_t q_lora_rank = 0;
  int64_t kv_lora_rank = 0;
  // Width of the rotated part of qk_head_dim. The keys of all heads share this part.
  int64_t rope_head_dim = 0;
  // Number of elements per token that the norms between the projections and attention read: the
  // elements of all queries and keys or, under MLA, of the low-rank vectors. 0 without these norms.
  int64_t norm_width = 0;
  // Number of positions that a token attends to, itself included; absent: itself and all earlier
  // positions.
  std::optional<int64_t> window;

  bool operator==(const AttentionProfile&) const = default;
};

struct FeedForwardProfile {
  bool gated = true;        // the MLP has gate, up and down matrices; otherwise only up and down
  int64_t dense_width = 0;  // width of the dense MLP that every token passes; 0: no dense MLP
  int64_t experts = 0;      // number of routed experts; 0: none
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;  // width of one routed expert
  int64_t latent_width = 0;  // width of a routed expert's input and output; 0: the hidden size
  int64_t shared_width = 0;  // total width of all shared experts
  bool shared_gate = false;  // a scalar gate per token scales the shared experts' output

  // Returns the width of a routed expert's input and output.
  double expert_input(double hidden) const {
    return latent_width > 0 ? static_cast<double>(latent_width) : hidden;
  }

  bool operator==(const FeedForwardProfile&) const = default;
};

struct LayerProfile {
  AttentionProfile attention;
  FeedForwardProfile feed_forward;
  int hidden_norms = 2;         // number of norms over the hidden size, for example 4 in Gemma 2
  bool parallel_block = false;  // attention and MLP run in parallel on the residual stream
  // Number of weights in matrices of Role::kOther (Mamba, ...) that a token is multiplied with.
  double other_weights = 0.0;
  double cut_other_weights = 0.0;  // those of other_weights that tp cuts

  bool operator==(const LayerProfile&) const = default;
};

LayerProfile layer_profile(const LayerSpec& layer);
// Returns the profile of the layer with index `layer`, in [0, num_hidden_layers).
LayerProfile layer_profile(const ModelConfig& config, int64_t layer);

// A maximal run of consecutive layers with equal profiles. For example, DeepSeek V3 has two runs:
// the dense first layers, and the layers with experts. A model whose layers alternate between two
// kinds of attention has many runs.
struct LayerRun {
  int64_t first = 0;
  int64_t count = 0;
  LayerProfile profile;
};
std::vector<LayerRun> layer_runs(const ModelConfig& config);

// A distinct profile and the indices of the layers that have it, consecutive or not.
struct LayerKind {
  std::vector<int> layers;
  LayerProfile profile;
};
std::vector<LayerKind> layer_kinds(const ModelConfig& config);

// Returns the number of weights that one token is multiplied with in the layer: those of the
// projections, the dense MLP, the experts to which the token is routed, the shared experts, the
// router and the matrices of Role::kOther. Biases and norm weights are not counted.
double layer_matmul_parameters(const LayerProfile& profile, int64_t hidden_size);

}  // namespace am::model
