// Decompresses Snappy's raw format.
#pragma once

#include <cstddef>
#include <span>

#include "am/formats/parquet/byte_reader.h"

namespace am::formats::parquet {

// Decompresses `packed` into `out`. Throws Error(kFormat) if the bytes are damaged, or do not fill
// `out` exactly.
void unpack_snappy(Bytes packed, std::span<std::byte> out);

}  // namespace am::formats::parquet
