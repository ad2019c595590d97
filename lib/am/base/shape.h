// Shape is the list of the sizes of a tensor or shard, outermost dim first. numel() returns the
// number of elements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace am {

using Shape = std::vector<int64_t>;

inline int64_t numel(std::span<const int64_t> shape) {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

}  // namespace am
