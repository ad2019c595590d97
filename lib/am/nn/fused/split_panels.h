// Converts one operand of a float32 product to panels of bfloat16 parts, in the order in which the
// processor's matrix unit (AMX) reads them. This is the first step of split_product.cpp.
//
// A float32 is the sum of three bfloat16 parts, called high, middle and low: the highest 8 bits of
// its significand, the next 8 bits, and the rest.
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

// A tile is a register of the matrix unit. It holds 16 rows of 16 pairs of bfloat16, or of 16
// float32 sums. One step multiplies 32 elements along the depth, the product's inner dim. In both
// operands, elements i and i + 16 of a step form a pair.
constexpr int64_t kTileLines = 16;
constexpr int64_t kTilePairs = 256;
constexpr int64_t kTileStride = 64;  // bytes of a tile's row
constexpr int64_t kStepDepth = 32;
constexpr int64_t kSplitParts = 3;

// A panel covers the lines of two tiles. A line is a row of the left operand, or a column of the
// right operand. For each step, a panel stores the parts of its two tiles in the order high, high,
// middle, middle, low, low. The last panel may have a single tile.
constexpr int64_t kPanelLines = 2 * kTileLines;

// Tiles sum kSumDepth elements of the depth at a time. The bfloat16 parts of kHeldColumns columns
// of the right operand stay in the L2 cache while the rows of the left operand pass. If each left
// row is contiguous, rows are split into parts one panel ahead of their product; otherwise,
// kPassingRows rows are split at a time.
constexpr int64_t kSumDepth = 256;
constexpr int64_t kHeldColumns = 704;
constexpr int64_t kPassingRows = 64;

constexpr int64_t kPanelPairs = kSumDepth / kStepDepth * kSplitParts * 2 * kTilePairs;
constexpr int64_t kScratchPanels = (kHeldColumns + kPassingRows) / kPanelLines;

// Width of a vector register in bytes: all processors with a matrix unit have AVX-512.
constexpr int kTileBytes = 64;
using Floats = Vector<float, kTileBytes>;
using Unsigned = VectorOf<uint32_t, kTileLines>::Type;
constexpr int kBlock = kCountOf<Floats>;
constexpr All<kTileBytes> kAll;

// One operand of a product. Its lines are rows if it is the left operand, and columns if it is the
// right operand. One of the two strides must be 1.
struct SplitSide {
  const float* data = nullptr;
  int64_t lines = 0;
  int64_t line_stride = 0;
  int64_t depth_stride = 0;
};

// Bits of the largest absolute values in an operand so far, one value per lane of the vectors that
// were split.
struct LargestBits {
  Unsigned lanes = {};
};

AM_INLINE uint32_t largest_lane(const LargestBits& largest) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < kTileLines; ++i) bits = std::max<uint32_t>(bits, largest.lanes[i]);
  return bits;
}

// Splits each float32 of two vectors into kSplitParts bfloat16 parts. Lane i of both vectors is
// stored as one int32 per part, with the part of `of_lower` in the lower half and the part of
// `of_upper` in the upper half. Each part is stored `tiles` tiles after the previous part. Rounding
// is to nearest, halves away from zero: each part leaves a remainder with 8 bits fewer, and the
// last part is exact. Updates `largest`.
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

// Loads the first `count` elements at `from`, at most one vector. The other lanes are 0. `count`
// may be negative.
AM_INLINE Floats load_some(const float* from, int64_t count) {
  if (count >= kBlock) return load(from, kAll);
  return count > 0 ? load(from, First<kTileBytes>{count}) : Floats{};
}

enum class SideKind { kLeft, kRight };

// Splits the elements of one tile and one step, beginning at side.data, into parts. Writes the
// parts to `to`, each part `tiles` tiles after the previous part. `lines`: number of lines, at most
// 16. `depth`: number of elements per line, at most 32. Vectors are read directly if the elements
// already have the tile's order in memory. A left operand has this order if depth_stride is 1, a
// right operand if depth_stride is not 1. Otherwise the elements are transposed block by block.
template <SideKind kSide>
AM_INLINE void split_tile(int32_t* to, int64_t tiles, const SplitSide& side, int64_t lines,
                          int64_t depth, LargestBits& largest) {
  const bool dense_lines = side.depth_stride == 1;
  const float* const from = side.data;
  if (!dense_lines) {
    // Prefetches the data of the next step. They lie kStepDepth rows of memory ahead, too far for
    // hardware prefetching.
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

// Splits an operand into panels, which begin kPanelPairs elements apart in `to`. `depth`: number of
// elements per line. Only the steps from `first_step` on are split. The loops follow the operand's
// order in memory.
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
