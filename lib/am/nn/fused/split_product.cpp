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
#include "am/nn/fused/tile_sums.h"
#include "am/tensor/parallel_for.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace am::nn::fused {

namespace tiles {

namespace {

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

// Returns this thread's scratch memory, about a megabyte. The memory stays allocated until the
// thread ends, because an allocation costs a tenth of a product's time. The memory is not a tensor,
// because memory meters would count a tensor as memory of the step.
int32_t* scratch() {
  thread_local const std::unique_ptr<int32_t, FreeScratch> memory(static_cast<int32_t*>(
      ::operator new (kScratchPanels* kPanelPairs * sizeof(int32_t), std::align_val_t{4096})));
  return memory.get();
}

struct LargestOfSides {
  LargestBits a, b;
};

// Multiplies all rows of a by all columns of b, and writes or adds the product to `whole`. a and b
// cover one range of `depth` elements, at most kSumDepth. b has at most kHeldColumns columns, whose
// bfloat16 parts stay in the L2 cache. `held`: the thread's scratch memory.
void multiply_held(int32_t* held, const Target& whole, const SplitSide& a, const SplitSide& b,
                   int64_t depth, LargestOfSides& largest) {
  int32_t* const passing = held + kHeldColumns / kPanelLines * kPanelPairs;
  const int64_t steps = steps_of(depth);
  split_side<SideKind::kRight>(held, b, depth, 0, largest.b);
  // Contiguous rows are split into bfloat16 parts one panel ahead of their product. The panels
  // alternate between two buffers.
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

// Bits of the smallest positive float32 that rounds to infinity in bfloat16. Floats with larger
// bits round to infinity too, or are NaN.
constexpr uint32_t kTooLarge = 0x7f7f8000;

AM_TILES void multiply_on_thread(float* c, int64_t stride, const SplitSide& a, const SplitSide& b,
                                 int64_t depth, LargestOfSides& largest) {
  struct {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const configuration;
  static_assert(sizeof(configuration) == 64);
  int32_t* const memory = scratch();  // may throw, so the call precedes _tile_loadconfig()
  _tile_loadconfig(&configuration);
  // Divides the columns into blocks of at most kHeldColumns columns. All blocks but the last have
  // equal width.
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

// Whether sums of `depth` products stay finite, and subnormal bfloat16 parts, which count as 0, are
// negligible. `largest_a` and `largest_b`: bits of the largest absolute values of the two operands.
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
  // Asks Linux for permission to use tiles, which a process needs once. Linux then saves 8 KB more
  // of register state for each thread that uses tiles.
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

}  // namespace tiles

bool splits_products() {
  static const bool found = tiles::finds_tiles();
  return found;
}

bool is_worth_splitting(int64_t rows, int64_t columns, int64_t depth) {
  constexpr int64_t kLeast = 96, kLeastProducts = int64_t{1} << 24, kLeastOfThread = 128;
  std::array<int64_t, 3> sizes = {rows, columns, depth};
  std::sort(sizes.begin(), sizes.end());
  // Every thread splits the whole operand with fewer lines into bfloat16 parts, which pays off only
  // if the thread's range of the other operand's lines is large. The other operand has at least
  // sizes[1] lines in all three products of a linear layer.
  return sizes[0] >= kLeast && sizes[1] >= kLeastOfThread * at::get_num_threads() &&
         sizes[0] * sizes[1] * sizes[2] >= kLeastProducts;
}

at::Tensor split_product(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  using namespace tiles;
  const auto a = side_of(a_MK, 0), b = side_of(b_KN, 1);
  if (!a || !b) return {};
  const int64_t depth = a_MK.size(1);
  at::Tensor c_MN = at::empty({a->lines, b->lines}, a_MK.options());
  auto* const c = c_MN.mutable_data_ptr<float>();
  // The threads divide the panels of the operand with more lines among themselves.
  const bool by_rows = a->lines >= b->lines;
  const int64_t lines = by_rows ? a->lines : b->lines;
  const int64_t panels = (lines + kPanelLines - 1) / kPanelLines;
  const int64_t threads = at::get_num_threads();
  std::atomic<uint32_t> largest_a = 0, largest_b = 0;
  tensor::parallel_for(
      0, panels, (panels + threads - 1) / threads, [&](int64_t begin, int64_t end) {
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
