// Packs items of different lengths into rows of equal capacity, without splitting an item.
//
//   pack_first_fit({5, 4, 3, 2}, 7);      // {{0, 3}, {1, 2}}
#pragma once

#include <cstdint>
#include <vector>

namespace am::data {

// Returns for each row the indices of its items in `lengths`. Places the items in order, each in
// the first row with enough free capacity; an item that fits into no row begins a new row. Lengths
// must be at least 1 and at most `capacity`. Needs O(n log n) time for n items.
std::vector<std::vector<int64_t>> pack_first_fit(const std::vector<int64_t>& lengths,
                                                 int64_t capacity);

}  // namespace am::data
