// The positions of each sequence that a rank computes: all, or a part under context parallelism or
// after a key/value cache. Holds only index arithmetic; layers outside of attention run on the part
// as on a shorter sequence.
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
  int64_t pieces = 1;  // number of pieces that the part is cut into (sequence shards)
  int64_t first = 0;   // with one rank: earlier positions are cached (key_value_cache.h)
  // Experts process one of `dealt_pieces` pieces of the part, cut as by torch.chunk.
  int64_t dealt_pieces = 1, dealt_piece = 0;

  mesh::SequenceCut cut(int64_t length) const;
  bool is_whole() const { return ranks == 1 && first == 0; }
  // Number of positions, padding included, that this rank computes of sequences of `length`.
  int64_t own_length(int64_t length) const { return cut(length).local() - first; }
  // Number of padding tokens among those that this rank's experts process, for sequences of
  // `length`. They come last.
  int64_t padding_of_experts(int64_t length) const;
  // Returns x_..T padded with the value `padding` to a length that the ranks divide; unchanged if
  // it has that length.
  at::Tensor padded(const at::Tensor& x, double padding) const;
  // Returns this rank's part of x_..T, padded: a new tensor with several ranks, otherwise a view.
  at::Tensor of(const at::Tensor& x, double padding) const;
};

}  // namespace am::nn
