#include "am/nn/fused/dense.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>

#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/tensors.h"
#include "am/nn/fused/transpose.h"

namespace am::nn::fused {

namespace {

// Sets to[m, k] = from[k, m] for m < rows and k < columns. Processes 16 values of m, a cache line
// of `from`, at a time: a cache line is thus still in the cache when its remaining elements are
// copied, whatever the strides are.
struct CopyTransposed {
  template <int kBytes>
  AM_INLINE static void run(float* to, const float* from, int64_t from_stride, int64_t rows,
                            int64_t columns) {
    constexpr int64_t kBlock = kLanes<float, kBytes>;
    constexpr int64_t kLine = std::max<int64_t>(kBlock, 64 / sizeof(float));
    for (int64_t line = 0; line < rows; line += kLine) {
      const int64_t end = std::min(rows, line + kLine);
      for (int64_t k = 0; k < columns; k += kBlock) {
        for (int64_t m = line; m < end; m += kBlock) {
          block<kBytes>(to + m * columns + k, columns, from + k * from_stride + m, from_stride,
                        std::min<int64_t>(kBlock, rows - m),
                        std::min<int64_t>(kBlock, columns - k));
        }
      }
    }
  }

  template <int kBytes>
  AM_INLINE static void block(float* to, int64_t to_stride, const float* from, int64_t from_stride,
                              int64_t rows, int64_t columns) {
    using Lanes = Vector<float, kBytes>;
    constexpr int kBlock = kCountOf<Lanes>;
    constexpr All<kBytes> kAll;
    Lanes lines[kBlock] = {};
    if (rows == kBlock && columns == kBlock) {
      for (int k = 0; k < kBlock; ++k) lines[k] = load(from + k * from_stride, kAll);
      transpose_block(lines);
      for (int m = 0; m < kBlock; ++m) store(to + m * to_stride, kAll, lines[m]);
      return;
    }
    for (int64_t k = 0; k < columns; ++k)
      lines[k] = load(from + k * from_stride, First<kBytes>{rows});
    transpose_block(lines);
    for (int64_t m = 0; m < rows; ++m) store(to + m * to_stride, First<kBytes>{columns}, lines[m]);
  }
};

bool is_transposed(const at::Tensor& a_MK) {
  return a_MK.stride(0) == 1 && a_MK.stride(1) >= a_MK.size(0);
}

}  // namespace

at::Tensor dense(const at::Tensor& a_MK) {
  const bool by_blocks = a_MK.device().is_cpu() && a_MK.scalar_type() == at::kFloat &&
                         !a_MK.is_contiguous() && is_transposed(a_MK);
  if (!by_blocks) return a_MK.contiguous();
  at::Tensor copy_MK = at::empty(a_MK.sizes(), a_MK.options());
  auto* const to = copy_MK.mutable_data_ptr<float>();
  const auto* const from = a_MK.const_data_ptr<float>();
  const int64_t columns = a_MK.size(1);
  for_rows(a_MK.size(0), columns, [&](int64_t begin, int64_t end) {
    run_kernel<CopyTransposed>(to + begin * columns, from + begin, a_MK.stride(1), end - begin,
                               columns);
  });
  return copy_MK;
}

}  // namespace am::nn::fused
