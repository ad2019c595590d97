// Creates archives in the format of torch.save, which torch_archive.h reads. In this file, a slice
// is one archive with one tensor or one value. A tensor's slice is returned as two parts: the bytes
// before and the bytes after the tensor's values. The caller writes the values between these parts,
// without a copy of the values in memory.
//
//   const TorchSlice slice = tensor_slice("float32", {4096, 512}, position);
//   file.write(slice.before);   // about 500 bytes, padded up to a multiple of 4 KiB in the file
//   file.write(values);         // 8 MiB, row by row
//   file.write(slice.after);
//
// All checksums in the archive are 0, because PyTorch does not check them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "am/base/shape.h"

namespace am::formats {

// Alignment in bytes of a tensor's values in a file. This alignment permits mapping the values into
// memory, and writing them without the page cache.
inline constexpr size_t kSliceAlignment = 4096;

struct TorchSlice {
  std::string before;
  std::string after;
};

// Returns the bytes to write before and after the values of a dense tensor. The values are in
// row-major order. `dtype` is a name that torch_dtype_size() accepts. The slice begins at byte
// `position` of its file, and its values begin at a multiple of `alignment`, which is at most 32
// KiB.
TorchSlice tensor_slice(std::string_view dtype, const Shape& shape, uint64_t position,
                        size_t alignment = kSliceAlignment);

// Location of a slice and of its values, as byte offsets in the file.
struct SlicePlace {
  uint64_t offset = 0;    // first byte of the slice
  uint64_t position = 0;  // first byte of the values
  uint64_t end = 0;       // offset behind the last byte of the slice

  uint64_t length() const { return end - offset; }
};
// Returns the location of a tensor's slice that begins at byte `offset` of its file. The values are
// aligned to kSliceAlignment.
SlicePlace place_slice(std::string_view dtype, const Shape& shape, uint64_t offset);

// Returns the complete archive of a value without tensors, given its pickle.
std::string value_slice(std::string_view pickle);

}  // namespace am::formats
