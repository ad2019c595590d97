// Dropout and noise whose random numbers are a pure function of the seed, the step, the module and
// the element's position. Layout, micro-batch size and recomputation do not change the numbers, and
// nothing is kept for backward. Legend: N rows (tokens), I columns.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/mesh/shard.h"

namespace am::nn::fused {

// Maps the rows of a tensor [sequences * t, I] to rows of the global batch. Each sequence of
// `length` tokens contributes t rows: all its tokens, those of a context-parallel rank, or a shard
// of all tokens or of the context-parallel rank's tokens.
struct DropoutRows {
  int64_t first_sequence = 0;  // index, in the global batch, of the tensor's first sequence
  int64_t sequences = 1;
  int64_t length = 0;
  int64_t part = 0;  // index of this rank's shard of t tokens, if there are shards
  // Token ranges of a context-parallel rank (mesh::SequenceCut::parts). Empty: whole sequences.
  std::vector<mesh::Extent> runs = {};
};

struct Dropout {
  double p = 0.0;  // dropout probability, in steps of 1 / 65536; kept elements are divided by 1 - p
  uint64_t key = 0;  // hash of the seed, the step and the module
  DropoutRows rows = {};
  int64_t first_column = 0;  // first column of x's slice; 0 if x has all columns
};

struct Noise {
  double largest = 0.0;  // the noise is uniform in (-largest, largest), in steps of largest / 32768
  uint64_t key = 0;      // hash of the seed, the step and the module
  DropoutRows rows = {};
};

// Returns the key of a module for one step: a hash of the arguments. `module` is a hash of the
// module's name.
uint64_t dropout_key(uint64_t seed, uint64_t step, uint64_t module);

// Returns x_NI after dropout, as a new, contiguous tensor. Builds no autograd graph.
at::Tensor dropped(const at::Tensor& x_NI, const Dropout& dropout);
// Applies dropout in place; x_NI must be contiguous.
void drop(at::Tensor& x_NI, const Dropout& dropout);

// Returns x [.., I] plus noise. Autograd treats the noise as a constant.
at::Tensor with_noise(const at::Tensor& x, const Noise& noise);

}  // namespace am::nn::fused
