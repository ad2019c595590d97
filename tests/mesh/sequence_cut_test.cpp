// Tests that each position of a sequence belongs to one rank. Also compares the steps of ring
// attention with the steps that follow from the attention mask, position by position.
#include "am/mesh/sequence_cut.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

namespace am::mesh {
namespace {

std::vector<int64_t> positions(const SequenceCut& cut, int64_t index) {
  std::vector<int64_t> all;
  for (const Extent& part : cut.parts(index)) {
    for (int64_t i = 0; i < part.size; ++i) all.push_back(part.offset + i);
  }
  return all;
}

// Returns the steps of ring attention that at least one query needs, computed from the mask at
// every pair of positions.
std::vector<int64_t> steps_by_positions(const SequenceCut& cut, int64_t window) {
  std::set<int64_t> steps = {0};
  for (int64_t rank = 0; rank < cut.ranks; ++rank) {
    for (int64_t owner = 0; owner < cut.ranks; ++owner) {
      for (const int64_t t : positions(cut, rank)) {
        for (const int64_t s : positions(cut, owner)) {
          if (s > t || (window > 0 && t - s >= window)) continue;
          steps.insert((rank - owner + cut.ranks) % cut.ranks);
        }
      }
    }
  }
  return {steps.begin(), steps.end()};
}

}  // namespace

TEST_CASE("every position has one rank") {
  const auto order = GENERATE(SequenceOrder::kHeadTail, SequenceOrder::kContiguous);
  const int64_t ranks = GENERATE(1, 2, 3, 8);
  const int64_t length = GENERATE(1, 15, 48, 50);
  const int64_t pieces = GENERATE(1, 2);
  const SequenceCut cut = cut_sequence({length, ranks, order, pieces});
  CHECK(cut.padded >= length);
  if (ranks == 1) {
    CHECK(cut.padded == length);
  } else {
    CHECK(cut.padded % (2 * ranks * pieces) == 0);
    CHECK(cut.padded - length < 2 * ranks * pieces);
  }
  std::set<int64_t> seen;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto own = positions(cut, rank);
    CHECK(static_cast<int64_t>(own.size()) == cut.local());
    CHECK(std::is_sorted(own.begin(), own.end()));
    seen.insert(own.begin(), own.end());
  }
  CHECK(static_cast<int64_t>(seen.size()) == cut.padded);
}

TEST_CASE("ranks have an early and a late chunk, or a run") {
  const SequenceCut pairs = cut_sequence({.length = 16, .ranks = 4});
  CHECK(positions(pairs, 0) == std::vector<int64_t>{0, 1, 14, 15});
  CHECK(positions(pairs, 3) == std::vector<int64_t>{6, 7, 8, 9});
  const SequenceCut runs =
      cut_sequence({.length = 16, .ranks = 4, .order = SequenceOrder::kContiguous});
  CHECK(positions(runs, 3) == std::vector<int64_t>{12, 13, 14, 15});
}

TEST_CASE("the ring skips owners whose keys nobody sees") {
  const int64_t ranks = GENERATE(2, 4, 5, 8);
  const int64_t length = GENERATE(16, 64, 81);
  const int64_t window = GENERATE(0, 1, 2, 5, 9, 17, 1000);
  const auto order = GENERATE(SequenceOrder::kHeadTail, SequenceOrder::kContiguous);
  const SequenceCut cut = cut_sequence({length, ranks, order});
  CHECK(ring_steps(cut, window) == steps_by_positions(cut, window));
  CHECK(ring_steps(cut_sequence({.length = 64, .ranks = 8}), 2) == std::vector<int64_t>{0, 1, 7});
}

}  // namespace am::mesh
