// Compact notation for lists of ranks in files and key-value stores: runs with a constant stride.
//
//   rank_runs(std::vector<int64_t>{0, 8, 16, 24});   // [[0, 8, 4]]: first, stride, count
//   rank_runs(std::vector<int64_t>{3, 4, 7});        // [[3, 1, 2], [7, 1, 1]]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "am/base/json.h"

namespace am {

// Returns the list of ranks as runs, in the order of the list.
Json rank_runs(std::span<const int64_t> ranks);
// Returns the ranks of `runs`; empty if `runs` is invalid or has more than 2^24 ranks.
std::vector<int64_t> ranks_in_runs(const Json& runs);

}  // namespace am
