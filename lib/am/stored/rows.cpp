#include "am/stored/rows.h"

#include <utility>

namespace am::stored {

std::span<const std::byte> bytes_of_rows(std::span<const std::byte> values, const Shape& shape,
                                         const mesh::Box& box) {
  if (shape.empty() || shape.front() == 0) return values;
  const size_t row = values.size() / static_cast<size_t>(shape.front());
  return values.subspan(static_cast<size_t>(box.offset.front()) * row,
                        static_cast<size_t>(box.shape.front()) * row);
}

mesh::Box inside(const mesh::Box& own, mesh::Box common) {
  for (size_t dim = 0; dim < own.offset.size(); ++dim) common.offset[dim] -= own.offset[dim];
  return common;
}

std::span<const std::byte> own_rows(std::span<const std::byte> values, const mesh::Box& own,
                                    const mesh::Box& common) {
  return bytes_of_rows(values, own.shape, inside(own, common));
}

}  // namespace am::stored
