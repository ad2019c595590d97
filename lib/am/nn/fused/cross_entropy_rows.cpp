#include "am/nn/fused/cross_entropy_rows.h"

#include <ATen/ATen.h>

#include <limits>

#include "am/model/gpu_operators.h"
#include "am/nn/fused/device.h"
#include "am/nn/fused/dispatch.h"
#include "am/nn/fused/tensors.h"
#include "am/tensor/gpu_kernels.h"

namespace am::nn::fused {

namespace {

template <typename Scalar>
struct SumRow {
  template <int kBytes>
  AM_INLINE static void run(Wide<Scalar>* maximum, Wide<Scalar>* exponentials, const Scalar* logits,
                            int64_t width) {
    constexpr auto kLowest = -std::numeric_limits<Wide<Scalar>>::infinity();
    Vector<Scalar, kBytes> most = Vector<Scalar, kBytes>{} + kLowest;
    for_lanes<Scalar, kBytes>(width, [&](int64_t i, auto part) AM_LANES {
      const Vector<Scalar, kBytes> x = outside_set(load(logits + i, part), part, kLowest);
      most = larger(most, x);
    });
    const Wide<Scalar> top = largest_of(most);
    Vector<Scalar, kBytes> sums = {};
    for_lanes<Scalar, kBytes>(width, [&](int64_t i, auto part) AM_LANES {
      const Vector<Scalar, kBytes> apart = load(logits + i, part) - top;
      sums += outside_set(exponential(apart), part, 0);
    });
    *maximum = top;
    *exponentials = static_cast<Wide<Scalar>>(sum_of(sums));
  }
};

// Factors of the gradient of a row of logits. The gradient is (softmax * of_softmax -
// one_hot(label) * of_label - of_all) * the scale of the loss.
struct Factors {
  double of_softmax = 1.0;
  double of_label = 1.0;
  double of_all = 0.0;
};

double of_all(const LossTerms& terms) {
  return terms.label_smoothing == 0.0
             ? 0.0
             : terms.label_smoothing / static_cast<double>(terms.vocabulary);
}

// Returns the factors of a row of logits. `sum` is the logarithm of the row's sum of exponentials.
Factors factors(const LossTerms& terms, double sum) {
  return {1.0 + 2.0 * terms.z_loss * sum, 1.0 - terms.label_smoothing, of_all(terms)};
}

// Sets `out` to e^(logit - sum) * scale - less.
template <typename Scalar>
struct Softmax {
  template <int kBytes>
  AM_INLINE static void run(Scalar* out, const Scalar* logits, int64_t width, Wide<Scalar> sum,
                            Wide<Scalar> scale, Wide<Scalar> less) {
    for_lanes<Scalar, kBytes>(width, [&](int64_t i, auto part) AM_LANES {
      const Vector<Scalar, kBytes> apart = load(logits + i, part) - sum;
      store(out + i, part, exponential(apart) * scale - less);
    });
  }
};

template <typename Scalar>
void gradient_of_row(Scalar* out, const Scalar* logits, int64_t width, Wide<Scalar> sum,
                     int64_t column, const Factors& factors, Wide<Scalar> scale) {
  const bool here = column >= 0 && column < width;
  // The label's logit is read before the kernel runs, because `out` may alias `logits`.
  const double of_label = here ? static_cast<double>(logits[column]) : 0.0;
  run_kernel<Softmax<Scalar>>(out, logits, width, sum,
                              static_cast<Wide<Scalar>>(scale * factors.of_softmax),
                              static_cast<Wide<Scalar>>(scale * factors.of_all));
  if (!here) return;
  const double softmax = std::exp(of_label - static_cast<double>(sum));
  const double value = (softmax * factors.of_softmax - factors.of_label - factors.of_all) * scale;
  out[column] = static_cast<Scalar>(static_cast<Wide<Scalar>>(value));
}

// ---- by ATen's operators

// Returns the number of logits processed at a time. The number is small on the host, so that
// float32 copies need little memory, and larger on a GPU, where each piece costs kernel launches.
int64_t elements_at_a_time(const at::Tensor& logits_Nv) {
  return on_gpu(logits_Nv) ? model::kLossElements : 4 << 20;
}

template <typename Step>
void for_pieces(const at::Tensor& logits_Nv, const Step& step) {
  const int64_t rows = logits_Nv.size(0);
  const int64_t most =
      std::max<int64_t>(1, elements_at_a_time(logits_Nv) / std::max<int64_t>(1, logits_Nv.size(1)));
  for (int64_t row = 0; row < rows; row += most) step(row, std::min(most, rows - row));
}

struct Columns {
  at::Tensor index_N;  // column of the label; 0 if the label is not in the slice
  at::Tensor here_N;   // whether the label lies in the slice
};

Columns columns(const at::Tensor& labels_N, const LabelRange& range, int64_t width) {
  const at::Tensor index = labels_N - range.first;
  const at::Tensor here = index.ge(0).logical_and(index.lt(width));
  return {index * here, here};
}

void sums_by_aten(LogitSums& sums, const at::Tensor& logits_Nv, const at::Tensor& labels_N,
                  const LabelRange& range) {
  if (logits_Nv.size(1) == 0) {
    sums.maximum_N.fill_(-std::numeric_limits<double>::infinity());
    sums.exponentials_N.zero_();
    sums.label_N.zero_();
    return;
  }
  for_pieces(logits_Nv, [&](int64_t row, int64_t count) {
    const at::Tensor piece = logits_Nv.narrow(0, row, count);
    const at::Tensor maximum = sums.maximum_N.narrow(0, row, count);
    maximum.copy_(piece.amax(-1));
    const Columns at = columns(labels_N.narrow(0, row, count), range, logits_Nv.size(1));
    const at::Tensor label = piece.gather(-1, at.index_N.unsqueeze(-1)).squeeze(-1);
    sums.label_N.narrow(0, row, count).copy_(label * at.here_N);
    sums.exponentials_N.narrow(0, row, count).copy_((piece - maximum.unsqueeze(-1)).exp_().sum(-1));
  });
}

void gradient_by_aten(at::Tensor& out_Nv, const at::Tensor& logits_Nv, const at::Tensor& sums_N,
                      const at::Tensor& labels_N, const LabelRange& range, const LossTerms& terms,
                      const at::Tensor& scale) {
  if (logits_Nv.size(1) == 0) return;
  for_pieces(logits_Nv, [&](int64_t row, int64_t count) {
    const at::Tensor labels = labels_N.narrow(0, row, count);
    const Columns at = columns(labels, range, logits_Nv.size(1));
    const at::Tensor sums = sums_N.narrow(0, row, count).unsqueeze(-1);
    at::Tensor softmax = (logits_Nv.narrow(0, row, count) - sums).exp_();  // in the sums' dtype
    if (terms.z_loss != 0.0) softmax.mul_(sums * (2.0 * terms.z_loss) + 1.0);
    softmax.scatter_add_(
        -1, at.index_N.unsqueeze(-1),
        at.here_N.to(softmax.scalar_type()).mul_(terms.label_smoothing - 1.0).unsqueeze(-1));
    if (terms.label_smoothing != 0.0) softmax.sub_(of_all(terms));
    softmax.mul_(scale).masked_fill_(labels.eq(range.ignored).unsqueeze(-1), 0.0);
    out_Nv.narrow(0, row, count).copy_(softmax);
  });
}

// ---- by kernels

template <typename Scalar>
void sums_by_kernel(LogitSums& sums, const at::Tensor& logits_Nv, const at::Tensor& labels_N,
                    const LabelRange& range) {
  const int64_t width = logits_Nv.size(1);
  const auto* logits = logits_Nv.const_data_ptr<Scalar>();
  const auto* labels = labels_N.const_data_ptr<int64_t>();
  auto* maximum = sums.maximum_N.mutable_data_ptr<Wide<Scalar>>();
  auto* exponentials = sums.exponentials_N.mutable_data_ptr<Wide<Scalar>>();
  auto* label = sums.label_N.mutable_data_ptr<Wide<Scalar>>();
  for_rows(logits_Nv.size(0), width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Scalar* of_row = logits + row * width;
      run_kernel<SumRow<Scalar>>(maximum + row, exponentials + row, of_row, width);
      const int64_t column = labels[row] - range.first;
      const bool here = column >= 0 && column < width;
      label[row] = here ? static_cast<Wide<Scalar>>(of_row[column]) : Wide<Scalar>(0);
    }
  });
}

template <typename Scalar>
void gradient_by_kernel(at::Tensor& out_Nv, const at::Tensor& logits_Nv, const at::Tensor& sums_N,
                        const at::Tensor& labels_N, const LabelRange& range, const LossTerms& terms,
                        Wide<Scalar> scale) {
  const int64_t width = logits_Nv.size(1);
  auto* out = out_Nv.mutable_data_ptr<Scalar>();
  const auto* logits = logits_Nv.const_data_ptr<Scalar>();
  const auto* labels = labels_N.const_data_ptr<int64_t>();
  const auto* sums = sums_N.const_data_ptr<Wide<Scalar>>();
  for_rows(logits_Nv.size(0), width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (labels[row] == range.ignored) {
        std::fill_n(out + row * width, width, Scalar(0));
      } else {
        gradient_of_row(out + row * width, logits + row * width, width, sums[row],
                        labels[row] - range.first, factors(terms, sums[row]), scale);
      }
    }
  });
}

}  // namespace

LogitSums logit_sums(const at::Tensor& logits_Nv, const at::Tensor& labels_N,
                     const LabelRange& range) {
  const auto options = logits_Nv.options().dtype(wide_dtype(logits_Nv.scalar_type()));
  const int64_t rows = logits_Nv.size(0);
  LogitSums sums = {at::empty({rows}, options), at::empty({rows}, options),
                    at::empty({rows}, options)};
  if (logits_Nv.is_meta()) return sums;
  if (const auto* gpu = tensor::gpu_kernels(logits_Nv);
      gpu != nullptr && gpu->logit_sums(sums.maximum_N, sums.exponentials_N, sums.label_N,
                                        logits_Nv, labels_N.contiguous(), range.first)) {
    return sums;
  }
  if (!has_kernels(logits_Nv)) {
    sums_by_aten(sums, logits_Nv, labels_N, range);
    return sums;
  }
  visit_dtype(logits_Nv.scalar_type(), [&](auto scalar) {
    sums_by_kernel<decltype(scalar)>(sums, logits_Nv, labels_N.contiguous(), range);
  });
  return sums;
}

void cross_entropy_gradient(at::Tensor& out_Nv, const at::Tensor& logits_Nv,
                            const at::Tensor& sums_N, const at::Tensor& labels_N,
                            const LabelRange& range, const LossTerms& terms,
                            const at::Tensor& scale) {
  if (logits_Nv.is_meta()) return;
  if (const auto* gpu = tensor::gpu_kernels(logits_Nv);
      gpu != nullptr && terms.none() &&
      gpu->cross_entropy_gradient(out_Nv, logits_Nv, sums_N, labels_N.contiguous(), range.first,
                                  range.ignored, scale)) {
    return;
  }
  if (!has_kernels(logits_Nv)) {
    return gradient_by_aten(out_Nv, logits_Nv, sums_N, labels_N, range, terms, scale);
  }
  visit_dtype(logits_Nv.scalar_type(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    gradient_by_kernel<Scalar>(out_Nv, logits_Nv, sums_N, labels_N.contiguous(), range, terms,
                               scale.item<Wide<Scalar>>());
  });
}

}  // namespace am::nn::fused
