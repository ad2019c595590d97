// Splits boxes into blocks of consecutive rows, for tensors that may be larger than memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "am/mesh/shard.h"

namespace am::stored {

// Calls `visit(block)` for consecutive blocks of rows of a box. A block has at most `most`
// elements; if one row has more, a block is one row. Does nothing for a box without elements.
template <typename Visit>
void for_each_row_block(const mesh::Box& box, int64_t most, const Visit& visit) {
  if (box.numel() == 0) return;
  if (box.shape.empty()) return visit(box);
  const int64_t all = box.shape.front();
  const int64_t rows = std::clamp<int64_t>(most / (box.numel() / all), 1, all);
  mesh::Box block = box;
  for (int64_t row = 0; row < all; row += rows) {
    block.offset.front() = box.offset.front() + row;
    block.shape.front() = std::min(rows, all - row);
    visit(block);
  }
}

}  // namespace am::stored
