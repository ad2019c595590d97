#include "am/checkpoint/mapped_tensor.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>

#include "am/tensor/dtype.h"

namespace am::checkpoint {

at::Tensor map_entry(const formats::SafetensorsFile& file, const formats::SafetensorsEntry& entry) {
  const auto options = at::TensorOptions(tensor::from_safetensors(entry.dtype));
  const auto bytes = file.data(entry);
  if (bytes.empty()) return at::empty(entry.shape, options);
  const auto alignment = c10::elementSize(c10::typeMetaToScalarType(options.dtype()));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignment != 0) {
    at::Tensor copy = at::empty(entry.shape, options);
    std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
    return copy;
  }
  // ATen has no const view; nothing here writes through it, and the map is read-only anyway.
  auto* data =
      const_cast<std::byte*>(bytes.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return at::from_blob(
      data, entry.shape, [keep = file.file()](void*) {}, options);
}

}  // namespace am::checkpoint
