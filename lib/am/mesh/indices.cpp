#include "am/mesh/indices.h"

namespace am::mesh {

int64_t flat_index(const Box& box, std::span<const int64_t> shape, int64_t local) {
  int64_t index = 0;
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    index += (box.offset[dim] + local % box.shape[dim]) * stride;
    local /= box.shape[dim];
    stride *= shape[dim];
  }
  return index;
}

std::vector<int64_t> coordinates_of(int64_t index, std::span<const int64_t> shape) {
  std::vector<int64_t> coordinates(shape.size());
  for (size_t dim = shape.size(); dim-- > 0;) {
    coordinates[dim] = index % shape[dim];
    index /= shape[dim];
  }
  return coordinates;
}

}  // namespace am::mesh
