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
// Read-only view of the entry's bytes; keeps the file mapped while it lives. Data that is not
// aligned for its dtype (old writers do not pad headers) is copied.
at::Tensor map_entry(const formats::SafetensorsFile& file, const formats::SafetensorsEntry& entry);

}  // namespace am::checkpoint
