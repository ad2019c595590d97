// A box of a strided tensor that lies in a mapped file, of whatever alignment.
#pragma once

#include <cstddef>
#include <span>

#include "am/mesh/shard.h"

namespace am::checkpoint {

// `data` are elements of `element_size` bytes, the first that of index 0, `strides` apart. Copies
// those of `box` to `out`, row-major, in runs as long as both lie in one. The box lies inside the
// data, which the caller has checked.
void copy_box(std::span<const std::byte> data, const Shape& strides, const mesh::Box& box,
              int64_t element_size, std::byte* out);

}  // namespace am::checkpoint
