// Sharding of a sequence's positions over context-parallel ranks, and the ranks whose keys each
// rank's queries attend to. Planner and runtime call the same functions.
//
//   const SequenceCut cut = cut_sequence({.length = 30, .ranks = 4});   // 32 positions, 4 a chunk
//   cut.parts(1);                // {4, 4} and {24, 4}: the second chunk and the last but one
//   ring_steps(cut, 6);          // {0, 1, 3}: no query sees a key of rank (own - 2) mod 4
//
// Under a causal mask late positions cost more than early ones. kHeadTail cuts the sequence into
// 2 * ranks chunks and gives rank r chunk r and chunk 2 * ranks - 1 - r: an early and a late one,
// so that all ranks have equal work.
#pragma once

#include <cstdint>
#include <vector>

#include "am/mesh/shard.h"

namespace am::mesh {

enum class SequenceOrder : uint8_t { kHeadTail, kContiguous };

struct SequenceCut {
  int64_t length = 0;  // positions of the sequence
  int64_t padded = 0;  // `length` rounded up with padding at the end, so that all parts are equal
  int64_t ranks = 1;
  SequenceOrder order = SequenceOrder::kHeadTail;

  // Positions per rank.
  int64_t local() const { return padded / ranks; }
  // Returns the runs of consecutive positions that rank `index` holds, in its local order.
  std::vector<Extent> parts(int64_t index) const;

  bool operator==(const SequenceCut&) const = default;
};

struct CutRequest {
  int64_t length = 0;
  int64_t ranks = 1;
  SequenceOrder order = SequenceOrder::kHeadTail;
  int64_t pieces = 1;  // number of pieces each rank's part must divide into (sequence parallelism)
};
// Pads the sequence only if there is more than one rank.
SequenceCut cut_sequence(const CutRequest& request);

// Whether any of these queries attends to any of these keys: position t attends to s if s <= t and,
// if window > 0, t - s < window.
bool sees(const Extent& queries, const Extent& keys, int64_t window);

// Returns the ring steps that attention needs, ascending and starting with 0. In step i, rank r
// reads the keys of rank (r - i) mod ranks. A step that any rank needs is returned for all.
std::vector<int64_t> ring_steps(const SequenceCut& cut, int64_t window);

}  // namespace am::mesh
