// Archives as torch.save writes them (torch_archive.h is their reader), made around bytes that
// somebody else writes: a tensor's values go to the disk from where they are.
//
//   const TorchSlice slice = tensor_slice("float32", {4096, 512}, position);
//   file.write(slice.before);   // 500 bytes and some, up to the next multiple of 4 KiB
//   file.write(values);         // 8 MiB, row by row
//   file.write(slice.after);
//
// Checksums in the archive are 0, which PyTorch does not look at; sizes stand in front of the data,
// as zip allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "am/base/shape.h"

namespace am::formats {

// Where a tensor's values begin in a file: so they can be mapped, and written without the page
// cache.
inline constexpr size_t kSliceAlignment = 4096;

struct TorchSlice {
  std::string before;
  std::string after;
};

// Around the values of a dense tensor, in the row-major order of `shape`. `dtype` by torch's name,
// one of torch_dtype_size's. The slice begins `position` bytes into its file, its values at a
// multiple of `alignment`, which is at most 32 KiB.
TorchSlice tensor_slice(std::string_view dtype, const Shape& shape, uint64_t position,
                        size_t alignment = kSliceAlignment);

// Where such a slice and the values in it lie, in bytes of the file.
struct SlicePlace {
  uint64_t offset = 0;
  uint64_t position = 0;  // of the values
  uint64_t end = 0;

  uint64_t length() const { return end - offset; }
};
SlicePlace place_slice(std::string_view dtype, const Shape& shape, uint64_t offset);

// A whole archive of a value without tensors: a pickle.
std::string value_slice(std::string_view pickle);

}  // namespace am::formats
