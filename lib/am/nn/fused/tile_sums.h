// Multiplies two panels (split_panels.h) and sums the products in the tiles of the processor's
// matrix unit. This is the second step of split_product.cpp.
#pragma once

#include "am/nn/fused/split_panels.h"

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>

namespace am::nn::fused::tiles {

// The next panel of the left operand, if its rows are contiguous. While a block of sums (the
// product of one left and one right panel) is computed, the rows [first_row, end_row) of the next
// panel are split into bfloat16 parts. This work runs between the tile instructions, when the
// vector units are idle.
struct NextPanel {
  const float* from = nullptr;
  int64_t row_stride = 0;
  int32_t* to = nullptr;
  int64_t steps = 0;  // number of steps of kStepDepth elements
  int64_t first_row = 0, end_row = 0;
  LargestBits* largest = nullptr;
};

// Number of steps from one extra tile store to the next. The stored values are not used. The extra
// stores are necessary because a tile store costs 1000 cycles if the last tile store is more than
// some 2000 cycles old.
constexpr int64_t kStepsAwake = 4;

// Tiles 0 to 3 hold the sums, tiles 4 and 5 the left operand, tiles 6 and 7 the right operand. A
// step multiplies 6 pairs of a left and a right part, and each pair needs 4 tile products. From one
// pair to the next, only the two tiles of one operand are loaded, so a step takes 4 + 5 x 2 = 14
// loads. A panel with a single tile needs fewer products and loads.
template <int kRows, int kColumns>
AM_TILES_INLINE void load_left(const int32_t* a, int64_t part) {
  _tile_loadd(4, a + part * kRows * kTilePairs, kTileStride);
  if constexpr (kRows > 1) _tile_loadd(5, a + (part * kRows + 1) * kTilePairs, kTileStride);
}
template <int kRows, int kColumns>
AM_TILES_INLINE void load_right(const int32_t* b, int64_t part) {
  _tile_loadd(6, b + part * kColumns * kTilePairs, kTileStride);
  if constexpr (kColumns > 1) {
    _tile_loadd(7, b + (part * kColumns + 1) * kTilePairs, kTileStride);
  }
}
template <int kRows, int kColumns>
AM_TILES_INLINE void add_products() {
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kColumns > 1) _tile_dpbf16ps(1, 4, 7);
  if constexpr (kRows > 1) _tile_dpbf16ps(2, 5, 6);
  if constexpr (kRows > 1 && kColumns > 1) _tile_dpbf16ps(3, 5, 7);
}
// Prefetches a tile of the right operand for the next step.
AM_INLINE void fetch_tile(const int32_t* tile) {
  for (int64_t i = 0; i < kTilePairs; i += kTileLines) __builtin_prefetch(tile + i);
}

template <int kRows, int kColumns>
AM_TILES_INLINE void add_step(const int32_t* a, const int32_t* b) {
  const int32_t* const next_b = b + kSplitParts * kColumns * kTilePairs;
  load_left<kRows, kColumns>(a, 0);
  load_right<kRows, kColumns>(b, 2);
  add_products<kRows, kColumns>();
  fetch_tile(next_b);
  load_right<kRows, kColumns>(b, 1);
  add_products<kRows, kColumns>();
  fetch_tile(next_b + kTilePairs);
  load_left<kRows, kColumns>(a, 1);
  add_products<kRows, kColumns>();
  fetch_tile(next_b + 2 * kTilePairs);
  load_right<kRows, kColumns>(b, 0);
  add_products<kRows, kColumns>();
  fetch_tile(next_b + 3 * kTilePairs);
  load_left<kRows, kColumns>(a, 0);
  add_products<kRows, kColumns>();
  fetch_tile(next_b + 4 * kTilePairs);
  load_left<kRows, kColumns>(a, 2);
  add_products<kRows, kColumns>();
  fetch_tile(next_b + 5 * kTilePairs);
}

AM_INLINE void split_ahead(const NextPanel& next, int64_t step, LargestBits& largest) {
  for (int64_t row = next.first_row; row < next.end_row; ++row) {
    const float* const from = next.from + row * next.row_stride + step * kStepDepth;
    __builtin_prefetch(from + kStepDepth);
    __builtin_prefetch(from + kStepDepth + kBlock);
    int32_t* const to = next.to + (step * kSplitParts * 2 + row / kTileLines) * kTilePairs +
                        row % kTileLines * kTileLines;
    store_split(to, 2, load(from, kAll), load(from + kBlock, kAll), largest);
  }
}

// Destination of a block of sums in the result matrix.
struct Target {
  float* c = nullptr;
  int64_t stride = 0;
  // Number of rows and of columns, counted from `c`, whose bfloat16 parts are in the scratch
  // memory.
  int64_t rows = 0, columns = 0;
  // Whether the sums belong to the first kSumDepth elements of the depth. These sums overwrite the
  // result; the sums of later elements are added to the result.
  bool is_first = false;
};

// Adds the sums of one tile, which are in `sums`, to the result matrix. Overwrites the result if
// target.is_first. `row` and `column`: offset of the tile from target.c.
AM_INLINE void add_sums(const float* sums, const Target& target, int64_t row, int64_t column) {
  const int64_t rows = std::min(kTileLines, target.rows - row);
  const int64_t columns = target.columns - column;
  float* c = target.c + row * target.stride + column;
  for (int64_t i = 0; i < rows; ++i, c += target.stride, sums += kTileLines) {
    const Floats before = target.is_first ? Floats{} : load_some(c, columns);
    const Floats sum = before + load(sums, kAll);
    if (columns >= kBlock) {
      store(c, kAll, sum);
    } else {
      store(c, First<kTileBytes>{columns}, sum);
    }
  }
}

template <int kRows, int kColumns>
AM_TILES void multiply_panels(const int32_t* a, const int32_t* b, int64_t steps,
                              const NextPanel& next, const Target& target) {
  alignas(64) float sums[kTilePairs];
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (!target.is_first) {
    for (int64_t row = 0; row < std::min(kPanelLines, target.rows); ++row) {
      __builtin_prefetch(target.c + row * target.stride, 1);
      __builtin_prefetch(target.c + row * target.stride + kBlock, 1);
    }
  }
  LargestBits largest = *next.largest;
  for (int64_t step = 0; step < steps; ++step) {
    add_step<kRows, kColumns>(a, b);
    if (step % kStepsAwake == kStepsAwake - 1) _tile_stored(6, sums, kTileStride);
    if (step < next.steps) split_ahead(next, step, largest);
    a += kSplitParts * kRows * kTilePairs;
    b += kSplitParts * kColumns * kTilePairs;
  }
  *next.largest = largest;
  if (target.is_first && target.rows >= kPanelLines && target.columns >= kPanelLines) {
    if constexpr (kRows > 1 && kColumns > 1) {
      const auto bytes = static_cast<int64_t>(target.stride * sizeof(float));
      float* const below = target.c + kTileLines * target.stride;
      _tile_stored(0, target.c, bytes);
      _tile_stored(1, target.c + kTileLines, bytes);
      _tile_stored(2, below, bytes);
      _tile_stored(3, below + kTileLines, bytes);
      return;
    }
  }
  _tile_stored(0, sums, kTileStride);
  add_sums(sums, target, 0, 0);
  if constexpr (kColumns > 1) {
    _tile_stored(1, sums, kTileStride);
    add_sums(sums, target, 0, kTileLines);
  }
  if constexpr (kRows > 1) {
    _tile_stored(2, sums, kTileStride);
    add_sums(sums, target, kTileLines, 0);
  }
  if constexpr (kRows > 1 && kColumns > 1) {
    _tile_stored(3, sums, kTileStride);
    add_sums(sums, target, kTileLines, kTileLines);
  }
}

inline void multiply_block(const int32_t* a, const int32_t* b, int64_t steps, const NextPanel& next,
                           const Target& target) {
  const bool two_rows = target.rows > kTileLines, two_columns = target.columns > kTileLines;
  if (two_rows && two_columns) return multiply_panels<2, 2>(a, b, steps, next, target);
  if (two_rows) return multiply_panels<2, 1>(a, b, steps, next, target);
  if (two_columns) return multiply_panels<1, 2>(a, b, steps, next, target);
  multiply_panels<1, 1>(a, b, steps, next, target);
}

}  // namespace am::nn::fused::tiles

#endif
