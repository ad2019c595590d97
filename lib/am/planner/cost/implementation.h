// Who runs the step: what an implementation fuses, overlaps and keeps. The time and the memory
// model read this one table, plans/measured/implementations.toml; `[cluster] implementation`
// chooses a row.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace am::planner {

struct Implementation {
  std::string name;
  std::string description;

  bool overlaps_tp = false;        // tensor-parallel collectives run beside matrix products
  bool unfused_attention = false;  // scores in memory, and without causal skipping
  bool old_launch = false;         // eager kernels of 2021: more of them, slower to launch
  bool eager = false;              // element-wise operators one by one
  double reduce_bytes = 4.0;       // of a gradient on the wire

  // States: bytes of a parameter, its gradient and the optimizer's part, where bf16 computes.
  double parameter_bytes = 2.0;
  double gradient_bytes = 4.0;
  double optimizer_bytes = 12.0;

  bool states_in_storage = false;  // all of them in the dtype that parameters are stored in

  // Activations of a layer, bytes a token: `hidden_bytes` for each element of hidden width (norms,
  // residuals, inputs of projections), `mlp_bytes` for each of the MLP's width, gated and not.
  double hidden_bytes = 10.0;
  double gated_bytes = 6.0;
  double plain_bytes = 4.0;
  // At the loss, a token and word of the vocabulary: what is kept, and what backward adds to it.
  double logits_bytes = 6.0;
  double logits_gradient_bytes = 0.0;
  double mask_bytes = 0.0;       // of an attention mask that is kept, a score
  double reserved = 1.06;        // what the caching allocator reserves over what is allocated
  bool pads_vocabulary = false;  // to a multiple of 128 * tp
};

// automesh is the first.
std::span<const Implementation> implementations();
// Null when unknown.
const Implementation* find_implementation(std::string_view name);
const Implementation& automesh_implementation();

}  // namespace am::planner
