#include "am/nn/fused/split_product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string_view>

#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/lanes.h"
#include "am/nn/fused/transpose.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AM_TILES                                                                           \
  [[gnu::target(                                                                           \
      "amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=" \
      "512")]]
#define AM_TILES_INLINE AM_TILES [[gnu::always_inline]] inline

namespace am::nn::fused {

namespace {

// A tile register holds 16 rows of 16 pairs of bfloat16, or of 16 sums. What the unit adds up in
// one step is 32 deep: number i of a step is in a pair with number i + 16, on both sides alike.
constexpr int64_t kTileLines = 16;
constexpr int64_t kTilePairs = 256;
constexpr int64_t kTileStride = 64;  // bytes of a row
constexpr int64_t kStepDepth = 32;
constexpr int64_t kSplitParts = 3;

// Panels are of two tiles' lines. Step after step they have the parts of both tiles: high, high,
// middle, middle, low, low. A panel of one tile, the last, has that tile alone.
constexpr int64_t kPanelLines = 2 * kTileLines;

// One sum is that deep. The right side's parts for so many columns stay in the second cache while
// the left side's rows pass by; its rows are split one panel ahead, or a few panels at a time.
constexpr int64_t kSumDepth = 256;
constexpr int64_t kHeldColumns = 704;
constexpr int64_t kPassingRows = 64;

constexpr int64_t kPanelPairs = kSumDepth / kStepDepth * kSplitParts * 2 * kTilePairs;
constexpr int64_t kScratchPanels = (kHeldColumns + kPassingRows) / kPanelLines;

using Unsigned = VectorOf<uint32_t, kTileLines>::Type;

// The left side by its rows, or the right side by its columns; one of the strides is 1.
struct SplitSide {
  const float* data = nullptr;
  int64_t lines = 0;
  int64_t line_stride = 0;
  int64_t depth_stride = 0;
};

std::optional<SplitSide> side_of(const at::Tensor& matrix, int64_t lines_dim) {
  const SplitSide side = {.data = matrix.const_data_ptr<float>(),
                          .lines = matrix.size(lines_dim),
                          .line_stride = matrix.stride(lines_dim),
                          .depth_stride = matrix.stride(1 - lines_dim)};
  if (side.line_stride != 1 && side.depth_stride != 1) return std::nullopt;
  return side;
}

struct FreeScratch {
  void operator()(int32_t* memory) const { ::operator delete (memory, std::align_val_t{4096}); }
};

// A megabyte for each thread that multiplies, kept: to ask for it anew would cost a tenth of a
// product. Not a tensor, since it is no part of what a step needs.
int32_t* scratch() {
  thread_local const std::unique_ptr<int32_t, FreeScratch> memory(static_cast<int32_t*>(
      ::operator new (kScratchPanels* kPanelPairs * sizeof(int32_t), std::align_val_t{4096})));
  return memory.get();
}

// ---- splitting ----------------------------------------------------------------------------------

// The largest number of a side without its sign, as bits, in each lane.
struct LargestBits {
  Unsigned lanes = {};
};

AM_INLINE uint32_t largest_lane(const LargestBits& largest) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < kTileLines; ++i) bits = std::max<uint32_t>(bits, largest.lanes[i]);
  return bits;
}

// Row after row of pairs, a part `tiles` tiles behind the other. Halves are rounded away from zero:
// what is left of a number has fewer bits by 8 each time, and the last part is exact.
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

// A row of which `count` numbers are there, none or more than a vector's included.
AM_INLINE Floats load_some(const float* from, int64_t count) {
  if (count >= kBlock) return load(from, All{});
  return count > 0 ? load(from, First{count}) : Floats{};
}

enum class SideKind { kLeft, kRight };

// One tile of one step; `lines` and `depth` are what is there of it, 16 and 32 at most. Memory
// whose rows are the tile's is read as it is: the left side with dense rows, the right side whose
// columns lie side by side. Otherwise blocks of it are turned.
template <SideKind kSide>
AM_INLINE void split_tile(int32_t* to, int64_t tiles, const SplitSide& side, int64_t lines,
                          int64_t depth, LargestBits& largest) {
  const bool dense_lines = side.depth_stride == 1;
  const float* const from = side.data;
  if (!dense_lines) {
    // What the next step reads is rows away: nothing else fetches it in time.
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

SplitSide part_of(SplitSide side, int64_t first_line, int64_t lines, int64_t first_depth) {
  side.data += first_line * side.line_stride + first_depth * side.depth_stride;
  side.lines = lines;
  return side;
}

int64_t steps_of(int64_t depth) { return (depth + kStepDepth - 1) / kStepDepth; }

// The panels of a side from step `first_step` on; along its memory.
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

// ---- multiplying --------------------------------------------------------------------------------

// The next panel of dense rows, a few rows of which are split with each block of sums: between the
// tiles' instructions, which leave the vector units to whoever wants them.
struct NextPanel {
  const float* from = nullptr;
  int64_t row_stride = 0;
  int32_t* to = nullptr;
  int64_t steps = 0;  // the whole ones
  int64_t first_row = 0, end_row = 0;
  LargestBits* largest = nullptr;
};

// A tile store that comes after some 2000 cycles without one costs 1000 cycles; so one that nobody
// needs is made every few steps.
constexpr int64_t kStepsAwake = 4;

// Sums in tiles 0 to 3, the left side's in 4 and 5, the right side's in 6 and 7. Between two
// products of parts one side changes: 14 loads for 24 products.
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
// Tile `tile` of what the next step reads of the held side.
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
    store_split(to, 2, load(from, All{}), load(from + kBlock, All{}), largest);
  }
}

// Where a block of sums goes.
struct Target {
  float* c = nullptr;
  int64_t stride = 0;
  int64_t rows = 0, columns = 0;  // from here to the end of the matrix
  bool is_first = false;          // of the depth: there is nothing to add to
};

// The sums of one tile are in `sums`.
AM_INLINE void add_sums(const float* sums, const Target& target, int64_t row, int64_t column) {
  const int64_t rows = std::min(kTileLines, target.rows - row);
  const int64_t columns = target.columns - column;
  float* c = target.c + row * target.stride + column;
  for (int64_t i = 0; i < rows; ++i, c += target.stride, sums += kTileLines) {
    const Floats before = target.is_first ? Floats{} : load_some(c, columns);
    const Floats sum = before + load(sums, All{});
    if (columns >= kBlock) {
      store(c, All{}, sum);
    } else {
      store(c, First{columns}, sum);
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

void multiply_block(const int32_t* a, const int32_t* b, int64_t steps, const NextPanel& next,
                    const Target& target) {
  const bool two_rows = target.rows > kTileLines, two_columns = target.columns > kTileLines;
  if (two_rows && two_columns) return multiply_panels<2, 2>(a, b, steps, next, target);
  if (two_rows) return multiply_panels<2, 1>(a, b, steps, next, target);
  if (two_columns) return multiply_panels<1, 2>(a, b, steps, next, target);
  multiply_panels<1, 1>(a, b, steps, next, target);
}

struct LargestOfSides {
  LargestBits a, b;
};

// Held columns [0, b.lines) at one sum's depth, and all rows.
void multiply_held(int32_t* held, const Target& whole, const SplitSide& a, const SplitSide& b,
                   int64_t depth, LargestOfSides& largest) {
  int32_t* const passing = held + kHeldColumns / kPanelLines * kPanelPairs;
  const int64_t steps = steps_of(depth);
  split_side<SideKind::kRight>(held, b, depth, 0, largest.b);
  // Rows that are dense are split ahead, panel by panel, in turns.
  const int64_t steps_ahead = a.depth_stride == 1 ? depth / kStepDepth : 0;
  const int64_t rows_at_a_time = steps_ahead > 0 ? kPanelLines : kPassingRows;
  const int64_t blocks = (b.lines + kPanelLines - 1) / kPanelLines;
  const int64_t rows_a_block = (kPanelLines + blocks - 1) / blocks;
  int64_t steps_ready = 0;
  for (int64_t first = 0; first < a.lines; first += rows_at_a_time) {
    const int64_t rows = std::min(rows_at_a_time, a.lines - first);
    const int64_t turn = steps_ahead > 0 ? first / kPanelLines % 2 : 0;
    int32_t* const here = passing + turn * kPanelPairs;
    split_side<SideKind::kLeft>(here, part_of(a, first, rows, 0), depth, steps_ready, largest.a);
    NextPanel next = {.largest = &largest.a};
    if (steps_ahead > 0 && a.lines - first - rows >= kPanelLines) {
      next.from = part_of(a, first + rows, kPanelLines, 0).data;
      next.row_stride = a.line_stride;
      next.to = passing + (1 - turn) * kPanelPairs;
      next.steps = steps_ahead;
    }
    steps_ready = next.steps;
    for (int64_t row = 0; row < rows; row += kPanelLines) {
      for (int64_t column = 0; column < b.lines; column += kPanelLines) {
        next.first_row = std::min(kPanelLines, column / kPanelLines * rows_a_block);
        next.end_row = std::min(kPanelLines, next.first_row + rows_a_block);
        multiply_block(here + row / kPanelLines * kPanelPairs,
                       held + column / kPanelLines * kPanelPairs, steps, next,
                       {.c = whole.c + (first + row) * whole.stride + column,
                        .stride = whole.stride,
                        .rows = rows - row,
                        .columns = b.lines - column,
                        .is_first = whole.is_first});
      }
    }
  }
}

// A number that has all bits of the exponent, or would have when it is rounded.
constexpr uint32_t kTooLarge = 0x7f7f8000;

AM_TILES void multiply_on_thread(float* c, int64_t stride, const SplitSide& a, const SplitSide& b,
                                 int64_t depth, LargestOfSides& largest) {
  struct {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const configuration;
  static_assert(sizeof(configuration) == 64);
  int32_t* const memory = scratch();  // may throw, as nothing does between configuring and release
  _tile_loadconfig(&configuration);
  // Even blocks of columns.
  const int64_t held_blocks = (b.lines + kHeldColumns - 1) / kHeldColumns;
  const int64_t panels = (b.lines + kPanelLines - 1) / kPanelLines;
  const int64_t held = (panels + held_blocks - 1) / held_blocks * kPanelLines;
  for (int64_t k = 0; k < depth; k += kSumDepth) {
    for (int64_t column = 0; column < b.lines; column += held) {
      multiply_held(memory, {.c = c + column, .stride = stride, .is_first = k == 0},
                    part_of(a, 0, a.lines, k),
                    part_of(b, column, std::min(held, b.lines - column), k),
                    std::min(kSumDepth, depth - k), largest);
    }
    if (largest_lane(largest.a) >= kTooLarge || largest_lane(largest.b) >= kTooLarge) break;
  }
  _tile_release();
}

// Whether sums of products of numbers up to these stay finite, and what is lost below the smallest
// normal number is nothing beside them.
bool stays_in_range(uint32_t largest_a, uint32_t largest_b, int64_t depth) {
  if (largest_a >= kTooLarge || largest_b >= kTooLarge) return false;
  if (largest_a == 0 || largest_b == 0) return true;
  constexpr int kFewest = -90;
  const int of_a = static_cast<int>(largest_a >> 23) - 127;
  const int of_b = static_cast<int>(largest_b >> 23) - 127;
  const int of_depth = static_cast<int>(std::bit_width(static_cast<uint64_t>(depth)));
  return of_a >= kFewest && of_b >= kFewest && of_a + of_b >= kFewest &&
         of_a + of_b + of_depth + 2 < 127;
}

bool lends_tiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kBfloat16 = 1U << 22, kTiles = 1U << 24;
  if ((edx & kBfloat16) == 0 || (edx & kTiles) == 0) return false;
  // The system keeps 8 KB more for each thread that uses tiles, and wants to be asked, once for the
  // process.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool finds_tiles() {
  const char* wanted = std::getenv("AM_SPLIT_PRODUCTS");
  if (wanted != nullptr && std::string_view(wanted) == "0") return false;
  return vector_level() == VectorLevel::kAvx512 && lends_tiles();
}

void keep_larger(std::atomic<uint32_t>& largest, uint32_t bits) {
  uint32_t before = largest;
  while (before < bits && !largest.compare_exchange_weak(before, bits)) {
  }
}

}  // namespace

bool splits_products() {
  static const bool found = finds_tiles();
  return found;
}

bool is_worth_splitting(int64_t rows, int64_t columns, int64_t depth) {
  constexpr int64_t kLeast = 96, kLeastProducts = int64_t{1} << 24, kLeastOfThread = 128;
  std::array<int64_t, 3> sizes = {rows, columns, depth};
  std::sort(sizes.begin(), sizes.end());
  // Every thread splits all of the shorter side: its part of the longer one has to be worth that.
  return sizes[0] >= kLeast && sizes[1] >= kLeastOfThread * at::get_num_threads() &&
         sizes[0] * sizes[1] * sizes[2] >= kLeastProducts;
}

at::Tensor split_product(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const auto a = side_of(a_MK, 0), b = side_of(b_KN, 1);
  if (!a || !b) return {};
  const int64_t depth = a_MK.size(1);
  at::Tensor c_MN = at::empty({a->lines, b->lines}, a_MK.options());
  auto* const c = c_MN.mutable_data_ptr<float>();
  // Threads have panels of the longer side's lines each.
  const bool by_rows = a->lines >= b->lines;
  const int64_t lines = by_rows ? a->lines : b->lines;
  const int64_t panels = (lines + kPanelLines - 1) / kPanelLines;
  const int64_t threads = at::get_num_threads();
  std::atomic<uint32_t> largest_a = 0, largest_b = 0;
  at::parallel_for(0, panels, (panels + threads - 1) / threads, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kPanelLines;
    const int64_t count = std::min(lines, end * kPanelLines) - first;
    LargestOfSides largest;
    multiply_on_thread(by_rows ? c + first * b->lines : c + first, b->lines,
                       by_rows ? part_of(*a, first, count, 0) : *a,
                       by_rows ? *b : part_of(*b, first, count, 0), depth, largest);
    keep_larger(largest_a, largest_lane(largest.a));
    keep_larger(largest_b, largest_lane(largest.b));
  });
  return stays_in_range(largest_a, largest_b, depth) ? c_MN : at::Tensor();
}

}  // namespace am::nn::fused

#else

namespace am::nn::fused {

bool splits_products() { return false; }
bool is_worth_splitting(int64_t /*rows*/, int64_t /*columns*/, int64_t /*depth*/) { return false; }
at::Tensor split_product(const at::Tensor& /*a_MK*/, const at::Tensor& /*b_KN*/) { return {}; }

}  // namespace am::nn::fused

#endif
