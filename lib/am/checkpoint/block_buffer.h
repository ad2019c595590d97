// Reusable memory for exports, which read, convert and write a tensor in blocks of rows, one after
// the other.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "am/base/direct_file.h"
#include "am/base/shape.h"

namespace am::checkpoint {

// Maximum size of a block of rows, in bytes; a longer row is a block by itself. An export holds one
// block in memory at a time.
inline constexpr int64_t kBlockBytes = int64_t{16} << 20;

// Memory for one block at a time. The memory grows to the size of the largest block. Its alignment
// allows a DirectFile to write a block without copying it.
class BlockBuffer {
 public:
  // Returns a contiguous tensor with undefined values. The tensor is valid until the next call.
  at::Tensor block(const Shape& shape, at::ScalarType dtype) {
    const auto bytes = static_cast<size_t>(numel(shape)) * c10::elementSize(dtype);
    if (bytes > size_) {
      memory_.reset();  // frees the old memory first, to reduce the peak
      memory_ = allocate_aligned(bytes);
      size_ = bytes;
    }
    return at::from_blob(memory_.get(), shape, at::TensorOptions(dtype));
  }

 private:
  AlignedMemory memory_;
  size_t size_ = 0;
};

// Calls `visit` with consecutive parts of `bytes`. Each part has at most `most` bytes.
template <typename Visit>
void for_each_piece(std::span<const std::byte> bytes, size_t most, const Visit& visit) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), most));
    visit(piece);
    bytes = bytes.subspan(piece.size());
  }
}

inline std::span<const std::byte> bytes_of(const at::Tensor& dense) {
  return {static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()};
}

}  // namespace am::checkpoint
