// Training implementations (automesh, Megatron, torchtitan, ...): what each of them fuses, overlaps
// and stores. They are the rows of plans/measured/implementations.toml, which the predictions of
// time and memory use; a plan's `[cluster] implementation` selects one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace am::cluster {

struct Implementation {
  std::string name;
  std::string description;

  bool overlaps_tp = false;  // tensor-parallel collectives overlap with matmuls
  // Attention scores are stored in memory, and masked scores are computed, too.
  bool unfused_attention = false;
  bool old_launch = false;    // more kernels than today, each slower to launch, as in 2021
  bool eager = false;         // element-wise operators are not fused
  double reduce_bytes = 4.0;  // bytes per gradient element in a reduction

  // Stored bytes per parameter element if the implementation computes in bf16: for the parameter,
  // its gradient, and its optimizer states.
  double parameter_bytes = 2.0;
  double gradient_bytes = 4.0;
  double optimizer_bytes = 12.0;

  // Gradients and optimizer states have the dtype in which parameters are stored, so that the three
  // members above are not used.
  bool states_in_storage = false;

  // Bytes of activations that a layer saves per token: `hidden_bytes` per element of the hidden
  // state (norms, residuals, inputs of projections), and `gated_bytes` or `plain_bytes` per element
  // of the MLP's width, for an MLP with or without a gate.
  double hidden_bytes = 10.0;
  double gated_bytes = 6.0;
  double plain_bytes = 4.0;
  // Bytes per token and vocabulary entry: those that the loss saves, and those that its backward
  // adds.
  double logits_bytes = 6.0;
  double logits_gradient_bytes = 0.0;
  double mask_bytes = 0.0;       // bytes of the stored attention mask per score; 0: there is none
  double reserved = 1.06;        // bytes that the caching allocator reserves per allocated byte
  bool pads_vocabulary = false;  // pads the vocabulary to a multiple of 128 * tp
};

// Returns all implementations; automesh is the first.
std::span<const Implementation> implementations();
// Returns the implementation with this name; null if the name is unknown.
const Implementation* find_implementation(std::string_view name);
const Implementation& automesh_implementation();

}  // namespace am::cluster
