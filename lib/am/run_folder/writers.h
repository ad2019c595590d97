// Chooses which rank writes a box (a part of a tensor) to a checkpoint if several ranks have copies
// of the box. The ranks need not communicate: each rank computes the same choice from its own
// boxes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace am::run_folder {

// A box that this rank holds. Other ranks may hold copies of the box.
struct HeldBox {
  int64_t bytes = 0;
  int64_t replicas = 1;  // number of copies
  // Text that identifies the group of ranks with copies. Boxes with equal `holders` are on the same
  // ranks, and each of these ranks must pass these boxes to choose_writers() in the same order.
  std::string holders;
};

// Returns for each box the number of the copy to write, from 0 to replicas - 1. Assigns the boxes
// to copies in descending order of size. For each box, chooses the copy number with the fewest
// bytes assigned so far among the boxes with equal `holders`.
std::vector<int64_t> choose_writers(const std::vector<HeldBox>& boxes);

}  // namespace am::run_folder
