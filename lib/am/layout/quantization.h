// Storage of frozen weights in NF4 (lora.quantize_base).
#pragma once

#include <cstdint>

namespace am::layout {

// Number of values in a block, as by default in bitsandbytes. The values of a block are neighbours
// in a row-major matrix and share one float32 magnitude.
inline constexpr int64_t kNf4Block = 64;
// Number of values in a chunk. Dequantization processes one chunk at a time.
inline constexpr int64_t kNf4Chunk = 1 << 22;

// Returns the bytes that store `numel` values: half a byte per value, and a magnitude per block.
// `numel` must be a multiple of kNf4Block.
constexpr int64_t nf4_bytes(int64_t numel) { return numel / 2 + numel / kNf4Block * 4; }

// Bytes per value, magnitudes included.
inline constexpr double kNf4Bytes = static_cast<double>(nf4_bytes(kNf4Block)) / kNf4Block;

// Returns the bytes of temporary memory for dequantizing `numel` values: 6 bytes per value of a
// chunk, two for indices and four for a float32 product.
constexpr int64_t nf4_scratch(int64_t numel) { return 6 * (numel < kNf4Chunk ? numel : kNf4Chunk); }

}  // namespace am::layout
