// Shards the positions of a sequence over context-parallel ranks. Determines which ranks' keys the
// queries of each rank attend to. Predictions of am-plan and training call the same functions.
//
//   const SequenceCut cut = cut_sequence({.length = 30, .ranks = 4});   // 32 positions, 4 a chunk
//   cut.parts(1);                // {4, 4} and {24, 4}: the second chunk and the last but one
//   ring_steps(cut, 4);          // {0, 1, 3}: no rank r needs keys of rank (r - 2) mod 4
//
// Under a causal mask, late positions cost more than early ones. kHeadTail therefore cuts the
// sequence into 2 * ranks chunks, and assigns two of them to rank r: chunk r, which is early, and
// chunk 2 * ranks - 1 - r, which is late. All ranks then have equal work. kContiguous assigns one
// range of positions to each rank.
#pragma once

#include <cstdint>
#include <vector>

#include "am/mesh/shard.h"

namespace am::mesh {

enum class SequenceOrder : uint8_t { kHeadTail, kContiguous };

struct SequenceCut {
  int64_t length = 0;  // number of positions (tokens) of the sequence
  int64_t padded = 0;  // `length` plus padding at the end, so that all ranks get equal parts
  int64_t ranks = 1;   // number of context-parallel ranks
  SequenceOrder order = SequenceOrder::kHeadTail;

  // Returns the number of positions of each rank, padding included.
  int64_t local() const { return padded / ranks; }
  // Returns the ranges of positions that rank `index` processes, in the order in which it stores
  // them.
  std::vector<Extent> parts(int64_t index) const;

  bool operator==(const SequenceCut&) const = default;
};

struct CutRequest {
  int64_t length = 0;  // number of positions (tokens) of the sequence
  int64_t ranks = 1;   // number of context-parallel ranks
  SequenceOrder order = SequenceOrder::kHeadTail;
  // Number of tp ranks over which sequence parallelism shards the positions of each
  // context-parallel rank; 1 without sequence parallelism. Padding makes these shards equal.
  int64_t pieces = 1;
};
// Returns the division of a sequence among context-parallel ranks. Pads the sequence only if
// `ranks` is more than 1.
SequenceCut cut_sequence(const CutRequest& request);

// Returns whether a query at any of the positions `queries` attends to a key at any of the
// positions `keys`. Position t attends to position s if s <= t and, if window > 0, also t - s <
// window.
bool sees(const Extent& queries, const Extent& keys, int64_t window);

// Returns the steps of ring attention that at least one rank needs, ascending from 0. In step i,
// rank r reads the keys of rank (r - i) mod ranks. `window` is the sliding window of attention in
// positions; 0: none.
std::vector<int64_t> ring_steps(const SequenceCut& cut, int64_t window);

}  // namespace am::mesh
