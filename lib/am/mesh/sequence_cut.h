// How context parallelism cuts the positions of a sequence over ranks, and which ranks' keys
// queries then see. Planner and runtime call these same functions.
//
//   const SequenceCut cut = cut_sequence({.length = 30, .ranks = 4});   // 32 positions, 4 a chunk
//   cut.parts(1);                // {4, 4} and {24, 4}: the second chunk and the last but one
//   ring_steps(cut, 6);          // {0, 1, 3}: no query sees a key of the rank two before its own
//
// A causal mask gives late positions more work than early ones. Head-tail cuts into 2 * ranks
// chunks, of which rank r has number r and number 2 * ranks - 1 - r: an early and a late one, so
// that all ranks have the same work.
#pragma once

#include <cstdint>
#include <vector>

#include "am/mesh/shard.h"

namespace am::mesh {

enum class SequenceOrder : uint8_t { kHeadTail, kContiguous };

struct SequenceCut {
  int64_t length = 0;  // positions of the sequence
  int64_t padded = 0;  // with those behind them that stand for nothing, so that all parts are equal
  int64_t ranks = 1;
  SequenceOrder order = SequenceOrder::kHeadTail;

  // Positions of a rank.
  int64_t local() const { return padded / ranks; }
  // Those of the rank `index`, in the order in which it has them: each run is of consecutive
  // positions.
  std::vector<Extent> parts(int64_t index) const;

  bool operator==(const SequenceCut&) const = default;
};

struct CutRequest {
  int64_t length = 0;
  int64_t ranks = 1;
  SequenceOrder order = SequenceOrder::kHeadTail;
  int64_t pieces = 1;  // into which each rank's part is cut again, as by sequence parallelism
};
// On one rank nothing is padded.
SequenceCut cut_sequence(const CutRequest& request);

// Whether one of these queries sees one of these keys: position t sees s where s <= t and, under a
// window (0: none), t - s < window.
bool sees(const Extent& queries, const Extent& keys, int64_t window);

// How many ranks back the keys are that queries see, ascending, 0 first: those of step i belong to
// rank (r - i) mod ranks. The same on all ranks: a step that any of them needs.
std::vector<int64_t> ring_steps(const SequenceCut& cut, int64_t window);

}  // namespace am::mesh
