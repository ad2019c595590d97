// A tensor that views a mapped safetensors entry: no copy until a box of it is read.
#pragma once

#include <ATen/core/Tensor.h>

#include "am/formats/safetensors.h"
#include "am/mesh/shard.h"

namespace am::checkpoint {

// Read-only view of the entry's bytes; keeps the file mapped while it lives. Data that is not
// aligned for its dtype (old writers do not pad headers) is copied.
at::Tensor map_entry(const formats::SafetensorsFile& file, const formats::SafetensorsEntry& entry);

}  // namespace am::checkpoint
