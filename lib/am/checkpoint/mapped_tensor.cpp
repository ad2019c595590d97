#include "am/checkpoint/mapped_tensor.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>

#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"

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

std::span<const std::byte> bytes_of_rows(std::span<const std::byte> values, const Shape& shape,
                                         const mesh::Box& box) {
  if (shape.empty() || shape.front() == 0) return values;
  const size_t row = values.size() / static_cast<size_t>(shape.front());
  return values.subspan(static_cast<size_t>(box.offset.front()) * row,
                        static_cast<size_t>(box.shape.front()) * row);
}

mesh::Box inside(const mesh::Box& own, mesh::Box common) {
  for (size_t dim = 0; dim < own.offset.size(); ++dim) common.offset[dim] -= own.offset[dim];
  return common;
}

std::span<const std::byte> own_rows(std::span<const std::byte> values, const mesh::Box& own,
                                    const mesh::Box& common) {
  return bytes_of_rows(values, own.shape, inside(own, common));
}

at::Tensor map_box(const formats::SafetensorsFile& file, const formats::SafetensorsEntry& entry,
                   const mesh::Box& box) {
  Shape origin(entry.shape.size(), 0);
  Shape shape = entry.shape;
  if (!shape.empty()) {
    origin.front() = box.offset.front();
    shape.front() = box.shape.front();
  }
  const at::Tensor rows = map_values(bytes_of_rows(file.data(entry), entry.shape, box), shape,
                                     tensor::from_safetensors(entry.dtype), file.file());
  return tensor::view_box(rows, origin, box);
}

}  // namespace am::checkpoint
