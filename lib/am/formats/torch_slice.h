// Creates archives like torch.save, which torch_archive.h reads, as the bytes before and after a
// tensor's values. The caller writes the values between them, so that they are not copied.
//
//   const TorchSlice slice = tensor_slice("float32", {4096, 512}, position);
//   file.write(slice.before);   // 500 bytes and some, up to the next multiple of 4 KiB
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

// Returns the bytes to write before and after the values of a dense tensor, which are in row-major
// order. `dtype` is a torch name that torch_dtype_size() knows. The slice begins at byte `position`
// of its file, and its values begin at a multiple of `alignment`, which is at most 32 KiB.
TorchSlice tensor_slice(std::string_view dtype, const Shape& shape, uint64_t position,
                        size_t alignment = kSliceAlignment);

// Location of an archive (slice) and of its values, as byte offsets in the file.
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
