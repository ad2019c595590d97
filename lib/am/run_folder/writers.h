// Chooses, for each box that several ranks hold, the rank that writes it. The holders compute equal
// results from their own boxes, without communication.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace am::run_folder {

// A box that `replicas` ranks hold. `holders` identifies these ranks: boxes with equal `holders`
// are on the same ranks, which pass them in the same order.
struct HeldBox {
  int64_t bytes = 0;
  int64_t replicas = 1;
  std::string holders;
};

// Returns the writer of each box, as a replica number below `replicas`; 0 for a box that only one
// rank holds. Boxes are assigned by descending size, each to the replica with the fewest bytes so
// far.
std::vector<int64_t> choose_writers(const std::vector<HeldBox>& boxes);

}  // namespace am::run_folder
