// Properties of training implementations (automesh, Megatron, torchtitan, ...) that predictions of
// time and memory use: which operations an implementation fuses and overlaps, and which values it
// stores. plans/measured/implementations.toml contains the properties; a plan's `[cluster]
// implementation` selects an implementation.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::cluster {

struct Implementation {
  std::string name;
  std::string description;

  bool overlaps_tp = false;  // tensor-parallel collectives overlap with matmuls
  // Attention scores are stored in memory, and scores that the mask excludes are computed too.
  bool unfused_attention = false;
  bool old_launch = false;    // more and slower kernel launches, as in programs of 2021
  bool eager = false;         // element-wise operators are not fused
  double reduce_bytes = 4.0;  // bytes per gradient element in a reduction

  // Stored bytes per parameter element if the implementation computes in bf16: for the parameter,
  // for its gradient, and for the optimizer (a float32 master copy and AdamW's two states).
  double parameter_bytes = 2.0;
  double gradient_bytes = 4.0;
  double optimizer_bytes = 12.0;

  // Whether gradients and optimizer states have the dtype in which parameters are stored. If true,
  // parameter_bytes, gradient_bytes and optimizer_bytes are not used.
  bool states_in_storage = false;

  // Bytes of activations that a layer saves for the backward, per token: `hidden_bytes` per element
  // of the hidden state (norms, residuals, inputs of projections), and `gated_bytes` or
  // `plain_bytes` per element of the MLP's width, for an MLP with or without a gate.
  double hidden_bytes = 10.0;
  double gated_bytes = 6.0;
  double plain_bytes = 4.0;
  // Bytes per logit (per token and vocabulary entry). logits_bytes: bytes that the loss saves for
  // backward. logits_gradient_bytes: further bytes that the loss allocates in backward.
  double logits_bytes = 6.0;
  double logits_gradient_bytes = 0.0;
  double mask_bytes = 0.0;         // stored mask: bytes per attention score; 0: no stored mask
  double reserved = 1.06;          // bytes that the caching allocator reserves per allocated byte
  bool pads_vocabulary = false;    // pads the vocabulary to a multiple of 128 * tp
  bool any_schedule = false;       // runs every pipeline schedule under the strategy megatron
  std::string strategy = "fsdp2";  // default strategy of am-plan search without a plan
};

// Returns all implementations; automesh is the first.
std::span<const Implementation> implementations();
std::vector<std::string> implementation_names();
// Returns the implementation with this name; null if the name is unknown.
const Implementation* find_implementation(std::string_view name);
const Implementation& automesh_implementation();
// Returns whether a plan for this implementation may have the strategy megatron: true for automesh,
// and for every implementation whose states_in_storage is false.
bool runs_megatron(const Implementation& implementation);

}  // namespace am::cluster
