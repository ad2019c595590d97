#include "am/checkpoint/mapped_tensor.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>

#include "am/tensor/dtype.h"

namespace am::checkpoint {

at::Tensor map_values(std::span<const std::byte> bytes, const Shape& shape, at::ScalarType dtype,
                      const std::shared_ptr<const MappedFile>& keep) {
  const auto options = at::TensorOptions(dtype);
  if (bytes.empty()) return at::empty(shape, options);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % c10::elementSize(dtype) != 0) {
    at::Tensor copy = at::empty(shape, options);
    std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
    return copy;
  }
  // ATen has no const view; nothing here writes through it, and the map is read-only anyway.
  auto* data =
      const_cast<std::byte*>(bytes.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return at::from_blob(
      data, shape, [keep](void*) {}, options);
}

at::Tensor map_entry(const formats::SafetensorsFile& file, const formats::SafetensorsEntry& entry) {
  return map_values(file.data(entry), entry.shape, tensor::from_safetensors(entry.dtype),
                    file.file());
}

}  // namespace am::checkpoint
