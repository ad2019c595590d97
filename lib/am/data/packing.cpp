#include "am/data/packing.h"

#include <algorithm>
#include <bit>

#include "am/base/error.h"

namespace am::data {
namespace {

// The free capacity of each row, stored in the leaves of a binary tree. An inner node stores the
// maximum of its two children.
class FreeRoom {
 public:
  FreeRoom(size_t rows, int64_t capacity)
      : leaves_(std::bit_ceil(std::max<size_t>(rows, 1))), largest_(2 * leaves_, capacity) {}

  // Reserves `length` in the first row that has room for it. Returns the row's index.
  size_t take(int64_t length) {
    size_t node = 1;
    while (node < leaves_) node = largest_[2 * node] >= length ? 2 * node : 2 * node + 1;
    largest_[node] -= length;
    const size_t row = node - leaves_;
    while (node > 1) {
      node /= 2;
      largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]);
    }
    return row;
  }

 private:
  size_t leaves_;
  std::vector<int64_t> largest_;  // children of node n: 2 n and 2 n + 1
};

}  // namespace

std::vector<std::vector<int64_t>> pack_first_fit(const std::vector<int64_t>& lengths,
                                                 int64_t capacity) {
  FreeRoom room(lengths.size(), capacity);
  std::vector<std::vector<int64_t>> rows;
  for (size_t item = 0; item < lengths.size(); ++item) {
    AM_ASSERT(lengths[item] >= 1 && lengths[item] <= capacity, "an item must fit into a row");
    const size_t row = room.take(lengths[item]);
    if (row == rows.size()) rows.emplace_back();
    rows[row].push_back(static_cast<int64_t>(item));
  }
  return rows;
}

}  // namespace am::data
