// Compares the fused operators with composites of ATen's operators: values and gradients, over
// shapes, dtypes and strides. Also checks the bytes that the fused operators save for backward.
#include "support/operators.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "am/base/text.h"
#include "am/nn/fused/clamped.h"
#include "am/nn/fused/dense.h"
#include "am/nn/fused/gated.h"
#include "am/nn/fused/linear.h"
#include "am/nn/fused/product.h"
#include "am/nn/fused/rms_norm.h"
#include "am/nn/fused/rotary.h"
#include "support/live_bytes.h"

namespace am {
namespace {

namespace fused = nn::fused;
using test::check_close;
using test::compare;
using test::kDtypes;
using test::Operator;
using test::run;
using test::Tensors;
using test::tolerance;

constexpr double kEps = 1e-5;
constexpr auto kSilu = model::Activation::kSilu;

// kRms rounds to the dtype of x before the multiplication by the weight, the other kinds after the
// multiplication.
at::Tensor composite_norm(const Tensors& in, model::NormKind kind = model::NormKind::kRms) {
  const auto dtype = in[0].scalar_type();
  const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor x = in[0].to(wide);
  const at::Tensor normal = x * (x.square().mean(-1, true) + kEps).rsqrt();
  if (kind == model::NormKind::kRms) return in[1] * normal.to(dtype);
  const double added = kind == model::NormKind::kRmsPlusOne ? 1.0 : 0.0;
  return (normal * (in[1].to(wide) + added)).to(dtype);
}

at::Tensor plain_norm(const Tensors& in) { return composite_norm(in); }

at::Tensor composite_rotation(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor turned = at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
  return x * cos + turned * sin;
}

}  // namespace

TEST_CASE("fused rms norm is the composite one") {
  at::manual_seed(1);
  for (const at::ScalarType dtype : kDtypes) {
    for (const auto& shape : std::vector<std::vector<int64_t>>{
             {1, 1}, {1, 16}, {3, 5}, {2, 7, 33}, {130, 64}, {2, 3, 4, 129}, {0, 8}}) {
      INFO(at::toString(dtype) << " " << at::IntArrayRef(shape));
      const at::Tensor x = (at::randn(shape) * 3.0).to(dtype);
      const at::Tensor weight = at::randn({shape.back()}).to(dtype);
      compare([](const Tensors& in) { return fused::rms_norm(in[0], in[1], kEps); }, plain_norm,
              {x, weight}, shape);
    }
    const at::Tensor strided = at::randn({6, 4, 10}).to(dtype).transpose(0, 1);
    compare([](const Tensors& in) { return fused::rms_norm(in[0], in[1], kEps); }, plain_norm,
            {strided, at::randn({10}).to(dtype)}, strided.sizes());
  }
}

TEST_CASE("fused rms norm of the other kinds is the composite one") {
  using model::NormKind;
  at::manual_seed(1);
  const auto kind = GENERATE(NormKind::kRmsWide, NormKind::kRmsPlusOne);
  const Operator composite = [kind](const Tensors& in) { return composite_norm(in, kind); };
  const Operator ours = [kind](const Tensors& in) {
    return fused::rms_norm(in[0], in[1], kEps, kind);
  };
  for (const at::ScalarType dtype : kDtypes) {
    for (const auto& shape : std::vector<std::vector<int64_t>>{{1, 1}, {2, 7, 33}, {130, 64}}) {
      INFO(at::toString(dtype) << " " << at::IntArrayRef(shape));
      const at::Tensor x = (at::randn(shape) * 3.0).to(dtype);
      compare(ours, composite, {x, at::randn({shape.back()}).to(dtype)}, shape);
    }
  }
}

TEST_CASE("fused gated activations are the composite ones") {
  using model::Activation;
  at::manual_seed(2);
  const auto activation =
      GENERATE(Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu, Activation::kRelu2);
  const Operator ours = [activation](const Tensors& in) {
    return fused::gated(in[0], in[1], activation);
  };
  const Operator composite = [activation](const Tensors& in) {
    return test::by_aten(activation, in[0]) * in[1];
  };
  for (const at::ScalarType dtype : kDtypes) {
    for (const auto& shape : std::vector<std::vector<int64_t>>{{1}, {3, 17}, {5, 7, 64}}) {
      INFO(static_cast<int>(activation)
           << " " << at::toString(dtype) << " " << at::IntArrayRef(shape));
      const at::Tensor gate = (at::randn(shape) * 4.0).to(dtype);
      compare(ours, composite, {gate, at::randn(shape).to(dtype)}, shape);
    }
  }
}

TEST_CASE("the clamped activation of neighbours is the composite one") {
  at::manual_seed(2);
  const fused::Clamp clamp = {1.702, 1.5};
  const Operator composite = [&](const Tensors& in) {
    const auto dtype = in[0].scalar_type();
    const at::Tensor pairs =
        in[0].to(dtype == at::kDouble ? at::kDouble : at::kFloat).unflatten(-1, {-1, 2});
    const at::Tensor gate = pairs.select(-1, 0).clamp_max(clamp.limit);
    const at::Tensor up = pairs.select(-1, 1).clamp(-clamp.limit, clamp.limit);
    return ((up + 1) * gate * (gate * clamp.alpha).sigmoid()).to(dtype);
  };
  for (const at::ScalarType dtype : kDtypes) {
    for (const int64_t width : {1, 5, 8, 12, 16, 17, 31, 100}) {
      INFO(at::toString(dtype) << " " << width);
      at::Tensor pairs = (at::randn({3, 2 * width}) * 2.0).to(dtype);
      pairs[0][0] = clamp.limit;  // a value at the limit has a gradient
      pairs[1][1] = -clamp.limit;
      const at::Tensor entering = at::randn({3, width}).to(dtype);
      const test::Outcome wanted = run(composite, {pairs}, entering);
      check_close(fused::clamped(pairs, clamp), wanted.value, tolerance(dtype));
      check_close(fused::clamped_gradient(entering, pairs, clamp), wanted.gradients[0],
                  tolerance(dtype));
    }
  }
  CHECK(fused::clamped(at::empty({0, 8}), clamp).sizes() == at::IntArrayRef({0, 4}));
}

TEST_CASE("fused swiglu is the composite one") {
  at::manual_seed(2);
  const Operator ours = [](const Tensors& in) { return fused::gated(in[0], in[1], kSilu); };
  const Operator composite = [](const Tensors& in) { return at::silu(in[0]) * in[1]; };
  for (const at::ScalarType dtype : kDtypes) {
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{1}, {3, 17}, {4, 100, 31}, {0, 8}}) {
      INFO(at::toString(dtype) << " " << at::IntArrayRef(shape));
      compare(ours, composite, {(at::randn(shape) * 4.0).to(dtype), at::randn(shape).to(dtype)},
              shape);
    }
    const at::Tensor both = at::randn({5, 40}).to(dtype);
    compare(ours, composite, {both.narrow(1, 0, 20), both.narrow(1, 20, 20)}, {5, 20});
  }
}

TEST_CASE("swiglu at the ends of the numbers") {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor gate =
      at::tensor({-infinity, -200.0F, -88.0F, 0.0F, 88.0F, 200.0F, infinity, std::nanf("")});
  const at::Tensor y = fused::gated(gate, at::ones_like(gate), kSilu);
  const auto* value = y.const_data_ptr<float>();
  CHECK(std::abs(value[1]) < 1e-30F);
  CHECK(std::abs(value[2]) < 1e-30F);
  CHECK(value[3] == 0.0F);
  CHECK(value[4] == 88.0F);
  CHECK(value[5] == 200.0F);
  CHECK(value[6] == infinity);
  CHECK(std::isnan(value[7]));
}

TEST_CASE("fused rotation is the composite one") {
  at::manual_seed(3);
  for (const at::ScalarType dtype : kDtypes) {
    for (const auto& shape : std::vector<std::vector<int64_t>>{
             {1, 1, 1, 2}, {2, 3, 5, 6}, {2, 4, 33, 64}, {1, 2, 7, 34}, {0, 2, 4, 8}}) {
      INFO(at::toString(dtype) << " " << at::IntArrayRef(shape));
      const at::Tensor angle = at::randn({shape[2], shape[3] / 2});
      const at::Tensor cos = at::cat({angle.cos(), angle.cos()}, -1).to(dtype);
      const at::Tensor sin = at::cat({angle.sin(), angle.sin()}, -1).to(dtype);
      const Operator ours = [&](const Tensors& in) { return fused::rotate(in[0], cos, sin); };
      const Operator composite = [&](const Tensors& in) {
        return composite_rotation(in[0], cos, sin);
      };
      compare(ours, composite, {at::randn(shape).to(dtype)}, shape);
      // In memory, the heads of one position are adjacent, as in a projection's output.
      const at::Tensor x = at::randn({shape[0], shape[2], shape[1], shape[3]}).to(dtype);
      compare(ours, composite, {x.transpose(1, 2)}, shape);
      compare(ours, composite,
              {at::randn({shape[3], shape[0], shape[1], shape[2]}).to(dtype).permute({1, 2, 3, 0})},
              shape);
    }
  }
}

TEST_CASE("a linear layer and its gradients") {
  at::manual_seed(6);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{4, 6}, {2, 3, 16}, {1, 1, 33}, {0, 8}}) {
      INFO(at::toString(dtype) << " " << at::IntArrayRef(shape));
      std::vector<int64_t> output = shape;
      output.back() = 5;
      const at::Tensor x = at::randn(shape).to(dtype);
      const at::Tensor weight = at::randn({5, shape.back()}).to(dtype);
      compare([](const Tensors& in) { return fused::linear(in[0], in[1], {}); },
              [](const Tensors& in) { return at::linear(in[0], in[1]); }, {x, weight}, output);
      compare([](const Tensors& in) { return fused::linear(in[0], in[1], in[2]); },
              [](const Tensors& in) { return at::linear(in[0], in[1], in[2]); },
              {x, weight, at::randn({5}).to(dtype)}, output);
    }
  }
  const at::Tensor a = at::randn({70, 30}), b = at::randn({50, 30});
  check_close(fused::product(a, b.t()), a.mm(b.t()), 1e-6);
  check_close(fused::product(a.t(), a), a.t().mm(a), 1e-6);
}

TEST_CASE("swiglu with the product behind it has the bits of the two") {
  at::manual_seed(7);
  const Operator both = [](const Tensors& in) {
    return fused::gated_linear(in[0], in[1], in[2], in[3], kSilu);
  };
  const Operator apart = [](const Tensors& in) {
    return fused::linear(fused::gated(in[0], in[1], kSilu), in[2], in[3]);
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const Tensors inputs = {at::randn({2, 3, 33}).to(dtype), at::randn({2, 3, 33}).to(dtype),
                            at::randn({9, 33}).to(dtype), at::randn({9}).to(dtype)};
    const at::Tensor entering = at::randn({2, 3, 9}).to(dtype);
    const test::Outcome a = run(both, inputs, entering), b = run(apart, inputs, entering);
    CHECK(at::equal(a.value, b.value));
    for (size_t i = 0; i < inputs.size(); ++i) CHECK(at::equal(a.gradients[i], b.gradients[i]));
  }
}

TEST_CASE("a product with a large transposed side is made in pieces") {
  const at::Tensor a = at::randn({700, 3500}), b = at::randn({700, 3});
  check_close(fused::product(a.t(), b), a.t().mm(b), 1e-5);
}

TEST_CASE("a dense copy of a transposed matrix, and of parts of it") {
  const at::Tensor whole = at::randn({67, 90});
  for (const int64_t first : {0, 3, 16}) {
    for (const int64_t rows : {1, 15, 16, 17, 64, 70}) {
      INFO(first << " " << rows);
      const at::Tensor part = whole.t().narrow(0, first, rows);
      const at::Tensor copy = fused::dense(part);
      CHECK(copy.is_contiguous());
      CHECK(at::equal(copy, part));
      CHECK(at::equal(fused::dense(part.narrow(1, 1, 5)), part.narrow(1, 1, 5)));
    }
  }
  CHECK(fused::dense(whole).is_same(whole));
  const at::Tensor column = whole.narrow(1, 4, 1), doubles = at::randn({20, 30}, at::kDouble).t();
  CHECK(at::equal(fused::dense(column), column));
  CHECK(at::equal(fused::dense(doubles), doubles));
}

TEST_CASE("gradients only where they are asked for") {
  const at::Tensor x = at::randn({3, 8}), weight = at::randn({8}).requires_grad_(true);
  fused::rms_norm(x, weight, kEps).sum().backward();
  CHECK(weight.grad().defined());
  const at::Tensor matrix = at::randn({4, 8});
  const at::Tensor moving = at::randn({3, 8}).requires_grad_(true);
  fused::linear(moving, matrix, {}).sum().backward();
  CHECK(moving.grad().defined());
  CHECK_FALSE(fused::gated(x, x, kSilu).requires_grad());
}

TEST_CASE("what the fused operators keep until backward") {
  constexpr int64_t kTensor = 64 * 32 * 4;
  const auto kept = [](const std::function<at::Tensor()>& make) {
    const test::LiveBytes live;
    const at::Tensor y = make();
    return live.count() - static_cast<int64_t>(y.storage().nbytes());
  };
  const auto leaf = [] { return at::randn({64, 32}).requires_grad_(true); };
  const at::Tensor weight = at::ones({32}).requires_grad_(true);
  // The inputs are intermediate values, which only the operator keeps alive.
  CHECK(kept([&] { return fused::rms_norm(leaf() * 1.0, weight, kEps); }) == 2 * kTensor + 64 * 4);
  CHECK(kept([&] { return fused::gated(leaf() * 1.0, leaf() * 1.0, kSilu); }) == 4 * kTensor);
  const at::Tensor matrix = at::ones({5, 32}).requires_grad_(true);
  CHECK(kept([&] { return fused::gated_linear(leaf() * 1.0, leaf() * 1.0, matrix, {}, kSilu); }) ==
        4 * kTensor);
  const at::Tensor table = at::ones({16, 8});
  CHECK(kept([&] {
          return fused::rotate(leaf().view({2, 8, 16, 8}) * 1.0, table, table);
        }) == kTensor);
}

}  // namespace am
