// Creates archives in the format of torch.save, which torch_archive.h reads. Such an archive is
// called a slice here. It is returned as the bytes before and the bytes after the tensor's values;
// the caller writes the values between these two parts, so that the values are not copied.
//
//   const TorchSlice slice = tensor_slice("float32", {4096, 512}, position);
//   file.write(slice.before);   // about 500 bytes, padded up to a multiple of 4 KiB in the file
//   file.write(values);         // 8 MiB, row by row
//   file.write(slice.after);
//
// Checksums in the archive are 0, because PyTorch does not check them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "am/base/shape.h"

namespace am::formats {

// Alignment of a tensor's values in a file, so that they can be mapped, and written without the
// page cache.
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
  uint64_t offset = 0;
  uint64_t position = 0;  // first byte of the values
  uint64_t end = 0;

  uint64_t length() const { return end - offset; }
};
// Returns the location of a tensor's slice that begins at byte `offset` of its file.
SlicePlace place_slice(std::string_view dtype, const Shape& shape, uint64_t offset);

// Returns the complete archive of a value without tensors, given its pickle.
std::string value_slice(std::string_view pickle);

}  // namespace am::formats
