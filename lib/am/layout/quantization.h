// Storage of frozen weights in NF4 (lora.quantize_base).
#pragma once

#include <cstdint>

namespace am::layout {

// Number of neighbouring values, in the order of a row-major matrix, with a common float32
// magnitude: bitsandbytes' default.
inline constexpr int64_t kNf4Block = 64;
// Number of values that are dequantized at a time.
inline constexpr int64_t kNf4Chunk = 1 << 22;

// Returns the bytes that store `numel` values: half a byte per value, and a magnitude per block.
// `numel` must be a multiple of kNf4Block.
constexpr int64_t nf4_bytes(int64_t numel) { return numel / 2 + numel / kNf4Block * 4; }

// Bytes per value, magnitudes included.
inline constexpr double kNf4Bytes = static_cast<double>(nf4_bytes(kNf4Block)) / kNf4Block;

// Returns the bytes of temporary memory for dequantizing `numel` values: per value of a chunk, two
// bytes of indices and a float32 product.
constexpr int64_t nf4_scratch(int64_t numel) { return 6 * (numel < kNf4Chunk ? numel : kNf4Chunk); }

}  // namespace am::layout
