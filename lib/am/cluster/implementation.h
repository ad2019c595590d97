// Training implementations: what each fuses, overlaps and stores. The time and the memory model
// read this table, plans/measured/implementations.toml; `[cluster] implementation` selects a row.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace am::cluster {

struct Implementation {
  std::string name;
  std::string description;

  bool overlaps_tp = false;        // tensor-parallel collectives overlap with matmuls
  bool unfused_attention = false;  // scores are stored, and masked scores are computed too
  bool old_launch = false;         // eager kernels as of 2021: more kernels, each slower to launch
  bool eager = false;              // element-wise operators are not fused
  double reduce_bytes = 4.0;       // bytes per gradient element in a reduction

  // States with bf16 compute: bytes per parameter element for the parameter, its gradient, and the
  // optimizer.
  double parameter_bytes = 2.0;
  double gradient_bytes = 4.0;
  double optimizer_bytes = 12.0;

  bool states_in_storage = false;  // all states are in the dtype in which parameters are stored

  // Activations of a layer in bytes per token: `hidden_bytes` per element of the hidden width
  // (norms, residuals, inputs of projections), and per element of the MLP's width `gated_bytes` or
  // `plain_bytes`.
  double hidden_bytes = 10.0;
  double gated_bytes = 6.0;
  double plain_bytes = 4.0;
  // Logits in bytes per token and vocabulary entry: saved for backward, and added in backward.
  double logits_bytes = 6.0;
  double logits_gradient_bytes = 0.0;
  double mask_bytes = 0.0;  // bytes per score of a stored attention mask
  double reserved = 1.06;   // memory reserved by the caching allocator relative to allocated memory
  bool pads_vocabulary = false;  // pads the vocabulary to a multiple of 128 * tp
};

// All implementations; automesh is the first.
std::span<const Implementation> implementations();
// Returns null if the name is unknown.
const Implementation* find_implementation(std::string_view name);
const Implementation& automesh_implementation();

}  // namespace am::cluster
