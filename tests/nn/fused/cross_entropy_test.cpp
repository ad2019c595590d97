// Compares the fused cross-entropy with ATen's: values and gradients, over shapes, dtypes and
// slices of the vocabulary.
#include "am/nn/fused/cross_entropy.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <utility>

#include "am/base/error.h"
#include "support/operators.h"

namespace am {
namespace {

namespace fused = nn::fused;
using test::check_close;
using test::compare;
using test::kDtypes;
using test::run;
using test::Tensors;
using test::tolerance;

at::Tensor composite_loss(const at::Tensor& logits, const at::Tensor& labels) {
  const auto wide = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}).to(wide),
                                labels.reshape({-1}), {}, at::Reduction::Sum, -100);
}

at::Tensor labels_for(const at::Tensor& logits) {
  std::vector<int64_t> shape = logits.sizes().vec();
  shape.pop_back();
  at::Tensor labels = at::randint(logits.size(-1), shape, at::kLong);
  if (labels.numel() > 2) labels.view({-1})[1] = -100;
  return labels;
}

}  // namespace

TEST_CASE("fused cross-entropy is the composite one") {
  at::manual_seed(4);
  for (const at::ScalarType dtype : kDtypes) {
    for (const auto& shape : std::vector<std::vector<int64_t>>{
             {1, 1}, {1, 5}, {7, 16}, {2, 9, 130}, {3, 1000}, {0, 8}}) {
      INFO(at::toString(dtype) << " " << at::IntArrayRef(shape));
      const at::Tensor logits = (at::randn(shape) * 5.0).to(dtype);
      const at::Tensor labels = labels_for(logits);
      compare([&](const Tensors& in) { return fused::cross_entropy_sum(in[0], labels, {}); },
              [&](const Tensors& in) { return composite_loss(in[0], labels); }, {logits}, {});
    }
    const at::Tensor strided = at::randn({11, 6}).to(dtype).t();
    const at::Tensor labels = labels_for(strided);
    compare([&](const Tensors& in) { return fused::cross_entropy_sum(in[0], labels, {}); },
            [&](const Tensors& in) { return composite_loss(in[0], labels); }, {strided}, {});
  }
}

TEST_CASE("cross-entropy of slices is that of the whole") {
  at::manual_seed(5);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor logits = at::randn({6, 20}).to(dtype) * 4.0;
    const at::Tensor labels = labels_for(logits);
    const auto sums_of = [&](const at::Tensor& part, int64_t first) {
      fused::LogitSums seen;
      fused::cross_entropy_sum(part, labels, {first, -100},
                               [&](fused::LogitSums& sums) { seen = sums; });
      return fused::LogitSums{seen.maximum_N, seen.exponentials_N, seen.label_N};
    };
    // A rank's slice is empty if the ranks before it hold the whole vocabulary.
    const std::vector<std::pair<int64_t, int64_t>> slices = {{0, 13}, {13, 7}, {20, 0}};
    std::vector<fused::LogitSums> parts;
    for (const auto& [first, size] : slices) {
      parts.push_back(sums_of(logits.narrow(1, first, size), first));
    }
    const fused::CombineSums combine = [&](fused::LogitSums& sums) {
      at::Tensor maximum = parts[0].maximum_N, label = parts[0].label_N;
      for (size_t i = 1; i < parts.size(); ++i) {
        maximum = at::maximum(maximum, parts[i].maximum_N);
        label = label + parts[i].label_N;
      }
      sums = {maximum, (logits - maximum.unsqueeze(-1)).exp().sum(-1), label};
    };
    const test::Outcome whole =
        run([&](const Tensors& in) { return composite_loss(in[0], labels); }, {logits},
            at::ones({}, logits.options()));
    for (const auto& [first, size] : slices) {
      const fused::LabelRange range = {first, -100};
      const test::Outcome part = run(
          [&](const Tensors& in) {
            return fused::cross_entropy_sum(in[0], labels, range, combine);
          },
          {logits.narrow(1, first, size)}, at::ones({}, logits.options()));
      check_close(part.value, whole.value, tolerance(dtype));
      check_close(part.gradients[0], whole.gradients[0].narrow(1, first, size), tolerance(dtype));
    }
  }
}

// Label smoothing and z-loss change the gradient, but not the returned value.
TEST_CASE("label smoothing and z-loss have the composite's gradient") {
  at::manual_seed(6);
  constexpr double kSmoothing = 0.15, kZ = 0.02;
  for (const at::ScalarType dtype : kDtypes) {
    const at::Tensor logits = (at::randn({9, 130}) * 4.0).to(dtype);
    const at::Tensor labels = labels_for(logits);
    const auto smoothed = [&](const Tensors& in) {
      const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
      const at::Tensor x = in[0].to(wide);
      const at::Tensor sums = x.logsumexp(-1).masked_fill(labels.eq(-100), 0.0);
      return at::cross_entropy_loss(x, labels, {}, at::Reduction::Sum, -100, kSmoothing) +
             sums.square().sum() * kZ;
    };
    const at::Tensor one = at::ones({}, logits.options());
    const test::Outcome wanted = run(smoothed, {logits}, one);
    const test::Outcome plain =
        run([&](const Tensors& in) { return composite_loss(in[0], labels); }, {logits}, one);
    for (const auto& [first, size] : {std::pair<int64_t, int64_t>{0, 130}, {0, 70}, {70, 60}}) {
      const fused::CombineSums combine = [&](fused::LogitSums& sums) {
        const auto wide = sums.maximum_N.scalar_type();
        const at::Tensor maximum = logits.to(wide).amax(-1);
        const at::Tensor index = labels.clamp_min(0).unsqueeze(-1);
        sums = {maximum, (logits.to(wide) - maximum.unsqueeze(-1)).exp().sum(-1),
                logits.to(wide).gather(-1, index).squeeze(-1)};
      };
      const test::Outcome got = run(
          [&](const Tensors& in) {
            return fused::cross_entropy_sum(in[0], labels, {first, -100}, combine,
                                            {kSmoothing, kZ, 130});
          },
          {logits.narrow(1, first, size)}, one);
      INFO(at::toString(dtype) << " " << first);
      check_close(got.value, plain.value, tolerance(dtype));
      check_close(got.gradients[0], wanted.gradients[0].narrow(1, first, size), tolerance(dtype));
    }
  }
}

TEST_CASE("the gradient takes the place of logits that nobody else holds") {
  const at::Tensor labels = at::tensor({1, 2}, at::kLong);
  const at::Tensor weight = at::randn({8, 5}).requires_grad_(true);
  const auto peak_of_backward = [&](bool held) {
    at::Tensor logits = at::linear(at::ones({2, 5}), weight);
    const at::Tensor before = logits.detach().clone();
    at::Tensor keeps = held ? logits.detach() : at::Tensor();
    const at::Tensor loss = fused::cross_entropy_sum(logits, labels, {});
    logits.reset();
    loss.backward();
    if (held) CHECK(at::equal(keeps, before));
    return std::exchange(weight.mutable_grad(), at::Tensor());
  };
  CHECK(at::equal(peak_of_backward(true), peak_of_backward(false)));

  const at::Tensor leaf = at::randn({2, 8});
  at::Tensor scaled = leaf.detach().requires_grad_(true) * 2.0;
  const void* place = scaled.const_data_ptr();
  const void* gradient_at = nullptr;
  scaled.register_hook(
      [&](const at::Tensor& gradient) { gradient_at = gradient.const_data_ptr(); });
  const at::Tensor loss = fused::cross_entropy_sum(scaled, labels, {});
  scaled.reset();
  loss.backward();
  CHECK(gradient_at == place);
}

TEST_CASE("misuse of the cross-entropy is told") {
  const at::Tensor labels = at::tensor({1, 2}, at::kLong);
  at::Tensor logits = at::randn({2, 8}).requires_grad_(true) * 1.0;
  CHECK_THROWS_AS(fused::cross_entropy_sum(logits, labels + 6, {}), Error);
  const at::Tensor loss = fused::cross_entropy_sum(logits, labels, {});
  loss.backward({}, /*retain_graph=*/true);
  CHECK_THROWS_AS(loss.backward(), Error);
  const at::Tensor changed = fused::cross_entropy_sum(logits, labels, {});
  {
    const at::NoGradGuard no_grad;
    logits.add_(1.0);
  }
  CHECK_THROWS_AS(changed.backward(), Error);
}

}  // namespace am
