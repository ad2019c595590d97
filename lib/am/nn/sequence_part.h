// Which positions of each sequence a rank computes: all, or a part of them under context
// parallelism or behind a cache of keys. Arithmetic alone: the layers before and after attention
// see a shorter sequence.
//
//   const SequencePart part = {.ranks = 2, .index = 1};
//   part.of(ids_BT, 0);        // of 8 positions: 2, 3, 4, 5
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "am/mesh/sequence_cut.h"

namespace am::nn {

struct SequencePart {
  int64_t ranks = 1, index = 0;
  mesh::SequenceOrder order = mesh::SequenceOrder::kHeadTail;
  int64_t pieces = 1;  // into which the part is cut again
  int64_t first = 0;   // on one rank: those before it were computed earlier (key_value_cache.h)
  // Experts take the tokens of one of so many pieces of the part, torch.chunk's.
  int64_t dealt_pieces = 1, dealt_piece = 0;

  mesh::SequenceCut cut(int64_t length) const;
  bool is_whole() const { return ranks == 1 && first == 0; }
  // How many positions of sequences of so many it computes, padding among them.
  int64_t own_length(int64_t length) const { return cut(length).local() - first; }
  // Of sequences of so many positions: how many of those that experts take stand for nothing. They
  // are the last ones.
  int64_t padding_of_experts(int64_t length) const;
  // x_..T with what stands for nothing behind it, of the value `padding`; as it is on one rank.
  at::Tensor padded(const at::Tensor& x, double padding) const;
  // This rank's part of x_..T, padded. A tensor of its own where there are several ranks, else a
  // view.
  at::Tensor of(const at::Tensor& x, double padding) const;
};

}  // namespace am::nn
