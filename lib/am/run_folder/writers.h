// Chooses which of the ranks that hold the same boxes writes each box. Every rank computes the same
// result from its own boxes, without communication.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace am::run_folder {

// A box that `replicas` ranks hold. `holders` identifies them: boxes with equal `holders` are held
// by the same ranks, which list them in the same order.
struct HeldBox {
  int64_t bytes = 0;
  int64_t replicas = 1;
  std::string holders;
};

// Returns the writer of each box, as a number below `replicas`: boxes are assigned from the largest
// on, each to the replica with the fewest bytes so far. 0 for a box that only one rank holds.
std::vector<int64_t> choose_writers(const std::vector<HeldBox>& boxes);

}  // namespace am::run_folder
