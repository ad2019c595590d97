// Packs items of different lengths into rows of equal capacity, without splitting an item.
//
//   pack_first_fit({5, 4, 3, 2}, 7);      // {{0, 3}, {1, 2}}
#pragma once

#include <cstdint>
#include <vector>

namespace am::data {

// Returns the items of each row. Each item, in order, goes into the first row that has room for it;
// an item that fits into no row begins a new row. Lengths must be at least 1 and at most
// `capacity`. Needs O(n log n) time.
std::vector<std::vector<int64_t>> pack_first_fit(const std::vector<int64_t>& lengths,
                                                 int64_t capacity);

}  // namespace am::data
