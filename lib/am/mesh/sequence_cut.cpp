#include "am/mesh/sequence_cut.h"

#include <algorithm>
#include <numeric>

namespace am::mesh {

std::vector<Extent> SequenceCut::parts(int64_t index) const {
  if (order == SequenceOrder::kContiguous || ranks == 1) return {{index * local(), local()}};
  const int64_t chunk = local() / 2;
  return {{index * chunk, chunk}, {(2 * ranks - 1 - index) * chunk, chunk}};
}

SequenceCut cut_sequence(const CutRequest& request) {
  SequenceCut cut{request.length, request.length, request.ranks, request.order};
  if (request.ranks == 1) return cut;
  const int64_t multiple = 2 * request.ranks * request.pieces;
  cut.padded = (request.length + multiple - 1) / multiple * multiple;
  return cut;
}

bool sees(const Extent& queries, const Extent& keys, int64_t window) {
  const int64_t last_query = queries.offset + queries.size - 1;
  const int64_t last_key = keys.offset + keys.size - 1;
  if (keys.offset > last_query) return false;
  return window <= 0 || queries.offset - last_key < window;
}

std::vector<int64_t> ring_steps(const SequenceCut& cut, int64_t window) {
  const auto needs = [&](int64_t rank, int64_t owner) {
    for (const Extent& queries : cut.parts(rank)) {
      for (const Extent& keys : cut.parts(owner)) {
        if (sees(queries, keys, window)) return true;
      }
    }
    return false;
  };
  std::vector<int64_t> steps;
  if (window == 0) {  // without a window, the last positions attend to the keys of all ranks
    steps.resize(static_cast<size_t>(cut.ranks));
    std::iota(steps.begin(), steps.end(), int64_t{0});
    return steps;
  }
  for (int64_t step = 0; step < cut.ranks; ++step) {
    bool any = step == 0;
    for (int64_t rank = 0; rank < cut.ranks && !any; ++rank) {
      any = needs(rank, (rank - step + cut.ranks) % cut.ranks);
    }
    if (any) steps.push_back(step);
  }
  return steps;
}

}  // namespace am::mesh
