// Converts one side of a product to panels of bfloat16 parts, in the order in which the processor's
// matrix unit reads them: the first step of split_product.cpp.
//
// A float32 is the sum of three bfloat16 parts: the highest 8 bits of its significand, the next 8,
// and the rest.
#pragma once

#if defined(__x86_64__) && defined(__linux__)

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "am/nn/fused/lanes.h"
#include "am/nn/fused/transpose.h"

#define AM_TILES                                                                           \
  [[gnu::target(                                                                           \
      "amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=" \
      "512")]]
#define AM_TILES_INLINE AM_TILES [[gnu::always_inline]] inline

namespace am::nn::fused::tiles {

// A tile register holds 16 rows of 16 pairs of bfloat16, or 16 rows of 16 sums. One step multiplies
// 32 elements of the inner dim (depth): element i of a step is paired with element i + 16, on both
// sides.
constexpr int64_t kTileLines = 16;
constexpr int64_t kTilePairs = 256;
constexpr int64_t kTileStride = 64;  // bytes of a tile's row
constexpr int64_t kStepDepth = 32;
constexpr int64_t kSplitParts = 3;

// A panel covers two tiles of lines (rows of the left operand, or columns of the right one). For
// each step it stores the parts of both tiles in the order high, high, middle, middle, low, low.
// The last panel may have a single tile.
constexpr int64_t kPanelLines = 2 * kTileLines;

// kSumDepth is the depth that is summed in tiles at a time. The parts of kHeldColumns columns of
// the right side stay in the L2 cache while the left side's rows stream through. If the left rows
// are dense, they are split into parts one panel ahead, otherwise kPassingRows at a time.
constexpr int64_t kSumDepth = 256;
constexpr int64_t kHeldColumns = 704;
constexpr int64_t kPassingRows = 64;

constexpr int64_t kPanelPairs = kSumDepth / kStepDepth * kSplitParts * 2 * kTilePairs;
constexpr int64_t kScratchPanels = (kHeldColumns + kPassingRows) / kPanelLines;

// Register width of processors with a matrix unit, all of which have AVX-512.
constexpr int kTileBytes = 64;
using Floats = Vector<float, kTileBytes>;
using Unsigned = VectorOf<uint32_t, kTileLines>::Type;
constexpr int kBlock = kCountOf<Floats>;
constexpr All<kTileBytes> kAll;

// One operand of a product. Its lines are the rows of the left operand, or the columns of the right
// one. One of the strides must be 1.
struct SplitSide {
  const float* data = nullptr;
  int64_t lines = 0;
  int64_t line_stride = 0;
  int64_t depth_stride = 0;
};

// Largest absolute value of a side in each lane, as the bits of a float.
struct LargestBits {
  Unsigned lanes = {};
};

AM_INLINE uint32_t largest_lane(const LargestBits& largest) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < kTileLines; ++i) bits = std::max<uint32_t>(bits, largest.lanes[i]);
  return bits;
}

// Splits each float32 of two vectors into kSplitParts bfloat16 parts. Each int32 holds a part of
// both: that of `of_lower` in its lower half, that of `of_upper` in its upper half. Each part is
// stored `tiles` tiles after the previous one. Rounding is to nearest, halves away from zero: each
// part leaves a remainder with 8 bits fewer, and the last part is exact.
AM_INLINE void store_split(int32_t* to, int64_t tiles, const Floats& of_lower,
                           const Floats& of_upper, LargestBits& largest) {
  constexpr uint32_t kUpperHalf = 0xffff0000;
  Floats x = of_lower, y = of_upper;
  largest.lanes = larger(largest.lanes, reinterpret_cast<Unsigned>(x) & 0x7fffffff);
  largest.lanes = larger(largest.lanes, reinterpret_cast<Unsigned>(y) & 0x7fffffff);
  for (int64_t part = 0; part < kSplitParts; ++part) {
    const Unsigned of_x = (reinterpret_cast<Unsigned>(x) + 0x8000) & kUpperHalf;
    const Unsigned of_y = (reinterpret_cast<Unsigned>(y) + 0x8000) & kUpperHalf;
    const Unsigned pairs = (of_x >> 16) | of_y;
    std::memcpy(to + part * tiles * kTilePairs, &pairs, sizeof(pairs));
    x -= reinterpret_cast<Floats>(of_x);
    y -= reinterpret_cast<Floats>(of_y);
  }
}

// Loads the first `count` elements of a row. `count` may be negative, and may exceed a vector's
// size.
AM_INLINE Floats load_some(const float* from, int64_t count) {
  if (count >= kBlock) return load(from, kAll);
  return count > 0 ? load(from, First<kTileBytes>{count}) : Floats{};
}

enum class SideKind { kLeft, kRight };

// Splits one tile of one step. `lines` (at most 16) and `depth` (at most 32) are the tile's
// extents. A side whose order in memory is the tile's is read directly: the left side if its
// depth_stride is 1, the right side if it is not. Any other side is transposed block by block.
template <SideKind kSide>
AM_INLINE void split_tile(int32_t* to, int64_t tiles, const SplitSide& side, int64_t lines,
                          int64_t depth, LargestBits& largest) {
  const bool dense_lines = side.depth_stride == 1;
  const float* const from = side.data;
  if (!dense_lines) {
    // Prefetches the data of the next step, which lies several rows ahead, too far for hardware
    // prefetching.
    const float* const next = from + kStepDepth * side.depth_stride;
    for (int64_t k = 0; k < kStepDepth; ++k) __builtin_prefetch(next + k * side.depth_stride);
  }
  if (dense_lines == (kSide == SideKind::kLeft)) {
    for (int64_t i = 0; i < kTileLines; ++i) {
      Floats x = {}, y = {};
      if (dense_lines && i < lines) {
        x = load_some(from + i * side.line_stride, depth);
        y = load_some(from + i * side.line_stride + kBlock, depth - kBlock);
      }
      if (!dense_lines && i < depth) x = load_some(from + i * side.depth_stride, lines);
      if (!dense_lines && i + kBlock < depth) {
        y = load_some(from + (i + kBlock) * side.depth_stride, lines);
      }
      store_split(to + i * kTileLines, tiles, x, y, largest);
    }
    return;
  }
  Floats halves[2][kBlock];
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t i = 0; i < kBlock; ++i) {
      if (dense_lines) {
        halves[half][i] = i < lines ? load_some(from + i * side.line_stride + half * kBlock,
                                                depth - half * kBlock)
                                    : Floats{};
      } else {
        const int64_t k = half * kBlock + i;
        halves[half][i] = k < depth ? load_some(from + k * side.depth_stride, lines) : Floats{};
      }
    }
    transpose_block(halves[half]);
  }
  for (int64_t i = 0; i < kTileLines; ++i) {
    store_split(to + i * kTileLines, tiles, halves[0][i], halves[1][i], largest);
  }
}

inline SplitSide part_of(SplitSide side, int64_t first_line, int64_t lines, int64_t first_depth) {
  side.data += first_line * side.line_stride + first_depth * side.depth_stride;
  side.lines = lines;
  return side;
}

inline int64_t steps_of(int64_t depth) { return (depth + kStepDepth - 1) / kStepDepth; }

// Splits a side from step `first_step` on, in the order of its memory.
template <SideKind kSide>
AM_TILES void split_side(int32_t* to, const SplitSide& side, int64_t depth, int64_t first_step,
                         LargestBits& largest_of_side) {
  LargestBits largest = largest_of_side;
  const int64_t steps = steps_of(depth);
  const auto split_at = [&](int64_t step, int64_t line) __attribute__((always_inline)) {
    const int64_t panel = line / kPanelLines;
    const int64_t tiles = side.lines - panel * kPanelLines > kTileLines ? 2 : 1;
    const int64_t tile = step * kSplitParts * tiles + line % kPanelLines / kTileLines;
    split_tile<kSide>(to + panel * kPanelPairs + tile * kTilePairs, tiles,
                      part_of(side, line, 0, step * kStepDepth),
                      std::min(kTileLines, side.lines - line),
                      std::min(kStepDepth, depth - step * kStepDepth), largest);
  };
  if (side.depth_stride == 1) {
    for (int64_t line = 0; line < side.lines; line += kTileLines) {
      for (int64_t step = first_step; step < steps; ++step) split_at(step, line);
    }
  } else {
    for (int64_t step = first_step; step < steps; ++step) {
      for (int64_t line = 0; line < side.lines; line += kTileLines) split_at(step, line);
    }
  }
  largest_of_side = largest;
}

}  // namespace am::nn::fused::tiles

#endif
