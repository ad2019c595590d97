// Dropout whose draws are a pure function of where an element is: so no layout, micro-batch or
// second run of a checkpointed layer changes which elements are dropped, and nothing is kept for
// backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/mesh/shard.h"

namespace am::nn::fused {

// Rows [sequences * t, I] of sequences of `length` tokens: of all of them, of a rank's runs of
// them, or of a shard of t tokens of these.
struct DropoutRows {
  int64_t first_sequence = 0;  // its number in the global batch
  int64_t sequences = 1;
  int64_t length = 0;
  int64_t part = 0;  // which shard, where there are fewer tokens than the rank has
  // Of context parallelism (mesh::SequenceCut::parts). Empty: the rank has whole sequences.
  std::vector<mesh::Extent> runs = {};
};

struct Dropout {
  double p = 0.0;    // probability of 0, in steps of 1 / 65536; what is left is divided by 1 - p
  uint64_t key = 0;  // of the seed, the step and the module
  DropoutRows rows = {};
  int64_t first_column = 0;  // of a piece of the columns: where it begins
};

uint64_t dropout_key(uint64_t seed, uint64_t step, uint64_t module);

// x_NI as it is after dropout: a new tensor, contiguous. No graph.
at::Tensor dropped(const at::Tensor& x_NI, const Dropout& dropout);
// The same in place, of a contiguous x_NI.
void drop(at::Tensor& x_NI, const Dropout& dropout);

}  // namespace am::nn::fused
