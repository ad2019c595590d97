// A tensor that views a mapped safetensors entry: no copy until a box of it is read.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>

#include "am/base/file.h"
#include "am/formats/safetensors.h"
#include "am/mesh/shard.h"

namespace am::checkpoint {

// Read-only view of `bytes`, dense values of this shape, which `keep` keeps mapped while the tensor
// lives; a copy where they are not aligned for the dtype.
at::Tensor map_values(std::span<const std::byte> bytes, const Shape& shape, at::ScalarType dtype,
                      const std::shared_ptr<const MappedFile>& keep);
// Of a dense tensor's values those of the rows (of its first dim) that a box has.
std::span<const std::byte> bytes_of_rows(std::span<const std::byte> values, const Shape& shape,
                                         const mesh::Box& box);
// Where `common` lies in a part of the tensor.
mesh::Box inside(const mesh::Box& own, mesh::Box common);
// bytes_of_rows of a part that lies at `own` in a tensor of which `common` is wanted.
std::span<const std::byte> own_rows(std::span<const std::byte> values, const mesh::Box& own,
                                    const mesh::Box& common);
// Read-only view of a box of the entry; keeps the file mapped while it lives. Rows that are not
// aligned for their dtype (old writers do not pad headers) are copied.
at::Tensor map_box(const formats::SafetensorsFile& file, const formats::SafetensorsEntry& entry,
                   const mesh::Box& box);

}  // namespace am::checkpoint
