// Reusable memory for blocks of a tensor's rows that are read, converted and written one after the
// other.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "am/base/direct_file.h"
#include "am/base/shape.h"

namespace am::checkpoint {

// Size of a block in bytes. An export has one block of a tensor in memory at a time.
inline constexpr int64_t kBlockBytes = int64_t{16} << 20;

// Memory for one block at a time, which grows as needed. It is aligned so that a DirectFile can
// write the block without a copy.
class BlockBuffer {
 public:
  // Returns a contiguous tensor without initial values, valid until the next call.
  at::Tensor block(const Shape& shape, at::ScalarType dtype) {
    const auto bytes = static_cast<size_t>(numel(shape)) * c10::elementSize(dtype);
    if (bytes > size_) {
      memory_.reset();  // frees the old memory before more is allocated
      memory_ = allocate_aligned(bytes);
      size_ = bytes;
    }
    return at::from_blob(memory_.get(), shape, at::TensorOptions(dtype));
  }

 private:
  AlignedMemory memory_;
  size_t size_ = 0;
};

// Calls `visit` with consecutive parts of `bytes`, each of at most `most` bytes.
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
