#include "am/nn/fused/dropout.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "am/base/random.h"
#include "am/nn/fused/tensors.h"

namespace am::nn::fused {

namespace {

constexpr int64_t kOfBlock = 8;  // draws of 16 bits in a block of the generator

// Where the rows of a tensor are in the global batch.
class GlobalRows {
 public:
  GlobalRows(const DropoutRows& rows, int64_t count)
      : rows_(rows), here_(std::max<int64_t>(1, count / std::max<int64_t>(1, rows.sequences))) {
    int64_t of_rank = 0;
    for (const mesh::Extent& run : rows.runs) of_rank += run.size;
    if (rows.runs.empty()) of_rank = rows.length;
    before_ = here_ < of_rank ? rows.part * here_ : 0;
  }

  int64_t operator()(int64_t row) const {
    return (rows_.first_sequence + row / here_) * rows_.length + position(before_ + row % here_);
  }

 private:
  int64_t position(int64_t of_rank) const {
    for (const mesh::Extent& run : rows_.runs) {
      if (of_rank < run.size) return run.offset + of_rank;
      of_rank -= run.size;
    }
    return of_rank;
  }

  const DropoutRows& rows_;
  int64_t here_;        // tokens of a sequence
  int64_t before_ = 0;  // those of the rank before them
};

template <typename Scalar>
void drop_row(Scalar* x, int64_t count, int64_t global_row, const Dropout& dropout) {
  const auto threshold = static_cast<uint32_t>(std::lround(dropout.p * 65536.0));
  const auto factor = static_cast<Scalar>(dropout.p < 1.0 ? 1.0 / (1.0 - dropout.p) : 0.0);
  const int64_t end = dropout.first_column + count;
  for (int64_t column = dropout.first_column; column < end;) {
    const int64_t block = column / kOfBlock;
    const std::array<uint32_t, 4> words =
        philox4x32(dropout.key, static_cast<uint64_t>(global_row), static_cast<uint64_t>(block));
    const int64_t block_end = std::min(end, (block + 1) * kOfBlock);
    for (; column < block_end; ++column, ++x) {
      const auto lane = static_cast<size_t>(column % kOfBlock);
      const uint32_t draw = words[lane / 2] >> (lane % 2 * 16) & 0xFFFFU;
      *x = draw < threshold ? Scalar(0) : *x * factor;
    }
  }
}

template <typename Scalar>
void drop_rows(at::Tensor& x_NI, const Dropout& dropout) {
  auto* const data = x_NI.mutable_data_ptr<Scalar>();
  const int64_t width = x_NI.size(1);
  const GlobalRows global(dropout.rows, x_NI.size(0));
  for_rows(x_NI.size(0), width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      drop_row(data + row * width, width, global(row), dropout);
    }
  });
}

}  // namespace

uint64_t dropout_key(uint64_t seed, uint64_t step, uint64_t module) {
  const std::array<uint32_t, 4> words = philox4x32(seed, step, module);
  return uint64_t{words[0]} << 32U | words[1];
}

void drop(at::Tensor& x_NI, const Dropout& dropout) {
  if (x_NI.is_meta() || x_NI.numel() == 0) return;
  if (has_kernels(x_NI)) {
    return visit_dtype(x_NI.scalar_type(),
                       [&](auto zero) { drop_rows<decltype(zero)>(x_NI, dropout); });
  }
  at::Tensor factors = at::ones(x_NI.sizes(), at::kFloat);
  drop_rows<float>(factors, dropout);
  x_NI.mul_(factors.to(x_NI.options()));
}

at::Tensor dropped(const at::Tensor& x_NI, const Dropout& dropout) {
  at::Tensor copy_NI = x_NI.clone(at::MemoryFormat::Contiguous);
  drop(copy_NI, dropout);
  return copy_NI;
}

}  // namespace am::nn::fused
