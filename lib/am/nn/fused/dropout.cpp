#include "am/nn/fused/dropout.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "am/base/random.h"
#include "am/nn/fused/tensors.h"
#include "am/tensor/gpu_kernels.h"

namespace am::nn::fused {

namespace {

constexpr int64_t kOfBlock = 8;  // number of random 16-bit numbers in a Philox block

// Maps each row (token) of a local tensor to the index of the token in the global batch.
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
  int64_t here_;        // number of local tokens per sequence
  int64_t before_ = 0;  // number of tokens in the rank's part of a sequence before this shard
};

// Calls use(draw) with the random 16-bit number of each column in [first, end).
template <typename Use>
void for_draws(uint64_t key, int64_t global_row, int64_t first, int64_t end, const Use& use) {
  for (int64_t column = first; column < end;) {
    const int64_t block = column / kOfBlock;
    const std::array<uint32_t, 4> words =
        philox4x32(key, static_cast<uint64_t>(global_row), static_cast<uint64_t>(block));
    const int64_t block_end = std::min(end, (block + 1) * kOfBlock);
    for (; column < block_end; ++column) {
      const auto lane = static_cast<size_t>(column % kOfBlock);
      use(words[lane / 2] >> (lane % 2 * 16) & 0xFFFFU);
    }
  }
}

template <typename Scalar>
void drop_row(Scalar* x, int64_t count, int64_t global_row, const Dropout& dropout) {
  const auto threshold = static_cast<uint32_t>(std::lround(dropout.p * 65536.0));
  const auto factor = static_cast<Scalar>(dropout.p < 1.0 ? 1.0 / (1.0 - dropout.p) : 0.0);
  const int64_t first = dropout.first_column;
  for_draws(dropout.key, global_row, first, first + count, [&](uint32_t draw) {
    *x = draw < threshold ? Scalar(0) : *x * factor;
    ++x;
  });
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

// Returns the words of philox4x32(key, row, block) for all N rows and B blocks: four int64 tensors
// [N, B] of values below 2^32. Products of these values wrap like unsigned products. Right shifts
// of int64 copy the sign bit, so high() masks off the copies.
std::array<at::Tensor, 4> philox_words(uint64_t key, const at::Tensor& rows_N,
                                       const at::Tensor& blocks_B) {
  const auto low = [](const at::Tensor& x) { return x.bitwise_and(int64_t{0xFFFFFFFF}); };
  const auto high = [&](const at::Tensor& x) {
    return x.bitwise_right_shift(32).bitwise_and_(int64_t{0xFFFFFFFF});
  };
  const at::Tensor rows = rows_N.unsqueeze(1).expand({-1, blocks_B.size(0)});
  const at::Tensor blocks = blocks_B.unsqueeze(0).expand({rows_N.size(0), -1});
  std::array<at::Tensor, 4> x = {low(rows), high(rows), low(blocks), high(blocks)};
  for (const PhiloxRound& round : philox_rounds(key)) {
    const at::Tensor p0 = x[0].mul_(static_cast<int64_t>(kPhiloxMultiplier0));
    const at::Tensor p1 = x[2].mul_(static_cast<int64_t>(kPhiloxMultiplier1));
    x = {high(p1).bitwise_xor_(x[1]).bitwise_xor_(int64_t{round.key0}), low(p1),
         high(p0).bitwise_xor_(x[3]).bitwise_xor_(int64_t{round.key1}), low(p0)};
  }
  return x;
}

// Returns the index in the global batch of each row of x_NI: [N], on the device of x_NI.
at::Tensor global_rows(const at::Tensor& x_NI, const DropoutRows& where) {
  const GlobalRows global(where, x_NI.size(0));
  const at::Tensor rows_N =
      at::empty({x_NI.size(0)}, at::TensorOptions(at::kLong).pinned_memory(x_NI.is_cuda()));
  auto* const row = rows_N.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < x_NI.size(0); ++i) row[i] = global(i);
  return rows_N.to(x_NI.device(), /*non_blocking=*/true);
}

// Returns of_draw(draws) for `width` columns from `first_column` on: [N, width] in `dtype`. `draws`
// are the random 16-bit numbers that for_draws() computes.
template <typename OfDraw>
at::Tensor by_draws(uint64_t key, const at::Tensor& rows_N, int64_t first_column, int64_t width,
                    at::ScalarType dtype, const OfDraw& of_draw) {
  const int64_t first = first_column / kOfBlock;
  const int64_t blocks = (first_column + width + kOfBlock - 1) / kOfBlock - first;
  const auto words = philox_words(
      key, rows_N, at::arange(first, first + blocks, rows_N.options().dtype(at::kLong)));
  at::Tensor out = at::empty({rows_N.size(0), blocks, kOfBlock}, rows_N.options().dtype(dtype));
  for (int64_t lane = 0; lane < kOfBlock; ++lane) {
    const at::Tensor& word = words[static_cast<size_t>(lane / 2)];
    out.select(2, lane).copy_(
        of_draw(word.bitwise_right_shift(lane % 2 * 16).bitwise_and_(int64_t{0xFFFF})));
  }
  return out.view({rows_N.size(0), blocks * kOfBlock})
      .narrow(1, first_column - first * kOfBlock, width);
}

// Returns a bool mask [N, width] of the elements to set to 0.
at::Tensor dropped_elements(const at::Tensor& rows_N, int64_t width, const Dropout& dropout) {
  const auto threshold = static_cast<int64_t>(std::lround(dropout.p * 65536.0));
  return by_draws(dropout.key, rows_N, dropout.first_column, width, at::kBool,
                  [&](const at::Tensor& draw) { return draw.lt(threshold); });
}

// Applies dropout by ATen's operators, for tensors without kernels. The result is bitwise equal to
// that of the kernels.
void drop_by_operators(const at::Tensor& x_NI, const Dropout& dropout) {
  // Number of elements processed at a time. Each element needs about 16 bytes of temporaries.
  constexpr int64_t kAtOnce = int64_t{1} << 25;
  const double exact = dropout.p < 1.0 ? 1.0 / (1.0 - dropout.p) : 0.0;
  // The factor is rounded to the dtype of x_NI, as the kernels round it.
  const double factor = at::scalar_tensor(exact, x_NI.scalar_type()).item<double>();
  const at::Tensor rows_N = global_rows(x_NI, dropout.rows);
  const int64_t width = x_NI.size(1);
  const int64_t step = std::max<int64_t>(1, kAtOnce / width);
  for (int64_t row = 0; row < x_NI.size(0); row += step) {
    const int64_t count = std::min(step, x_NI.size(0) - row);
    x_NI.narrow(0, row, count)
        .mul_(factor)
        .masked_fill_(dropped_elements(rows_N.narrow(0, row, count), width, dropout), 0);
  }
}

// Applies dropout by the GPU kernel. Returns false if no GPU kernel supports the tensors.
bool drop_by_gpu(const at::Tensor& out_NI, const at::Tensor& x_NI, const Dropout& dropout) {
  const auto* gpu = tensor::gpu_kernels(x_NI);
  return gpu != nullptr && gpu->drop(out_NI, x_NI, global_rows(x_NI, dropout.rows),
                                     dropout.first_column, dropout.p, dropout.key);
}

// Maps a random 16-bit number to noise between -1 and 1. `Draw` is float, or a tensor of floats.
template <typename Draw>
Draw noise_of(const Draw& draw) {
  return (draw + 0.5F) * (1.0F / 32768.0F) - 1.0F;
}

// Returns noise [N, I] in float32 for the rows of x_NI.
at::Tensor noise_like(const at::Tensor& x_NI, const Noise& noise) {
  const int64_t width = x_NI.size(1);
  if (!x_NI.is_cpu()) {
    return by_draws(noise.key, global_rows(x_NI, noise.rows), 0, width, at::kFloat,
                    [](const at::Tensor& draw) { return noise_of(draw.to(at::kFloat)); })
        .mul(noise.largest);
  }
  const at::Tensor out_NI = at::empty(x_NI.sizes(), x_NI.options().dtype(at::kFloat));
  auto* const data = out_NI.mutable_data_ptr<float>();
  const auto largest = static_cast<float>(noise.largest);
  const GlobalRows global(noise.rows, x_NI.size(0));
  for_rows(x_NI.size(0), width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = data + row * width;
      for_draws(noise.key, global(row), 0, width,
                [&](uint32_t draw) { *to++ = noise_of(static_cast<float>(draw)) * largest; });
    }
  });
  return out_NI;
}

}  // namespace

uint64_t dropout_key(uint64_t seed, uint64_t step, uint64_t module) {
  const std::array<uint32_t, 4> words = philox4x32(seed, step, module);
  return uint64_t{words[0]} << 32U | words[1];
}

void drop(at::Tensor& x_NI, const Dropout& dropout) {
  if (x_NI.is_meta() || x_NI.numel() == 0) return;
  if (drop_by_gpu(x_NI, x_NI, dropout)) return;
  if (has_kernels(x_NI)) {
    return visit_dtype(x_NI.scalar_type(),
                       [&](auto zero) { drop_rows<decltype(zero)>(x_NI, dropout); });
  }
  drop_by_operators(x_NI, dropout);
}

at::Tensor dropped(const at::Tensor& x_NI, const Dropout& dropout) {
  if (const at::Tensor dense_NI = x_NI.contiguous(); tensor::gpu_kernels(dense_NI) != nullptr) {
    at::Tensor out_NI = at::empty_like(dense_NI);
    if (drop_by_gpu(out_NI, dense_NI, dropout)) return out_NI;
  }
  at::Tensor copy_NI = x_NI.clone(at::MemoryFormat::Contiguous);
  drop(copy_NI, dropout);
  return copy_NI;
}

at::Tensor with_noise(const at::Tensor& x, const Noise& noise) {
  if (x.is_meta() || x.numel() == 0) return x + at::empty_like(x);
  const at::Tensor noise_NI = noise_like(x.detach().reshape({-1, x.size(-1)}), noise);
  return x + noise_NI.view(x.sizes()).to(x.scalar_type());
}

}  // namespace am::nn::fused
