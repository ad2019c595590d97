// Tests linear layers with weights stored as [in, out], with several outputs in one matrix, or
// fused with the preceding activation; also partially rotated heads and dropout.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/nn/fused/adapted_linear.h"
#include "am/nn/fused/dropout.h"
#include "am/nn/fused/gated.h"
#include "am/nn/fused/linear.h"
#include "am/nn/fused/rotary.h"
#include "support/operators.h"

namespace am {
namespace {

namespace fused = nn::fused;
using test::check_close;
using test::run;
using test::Tensors;

double tolerance_of(at::ScalarType dtype) {
  if (dtype == at::kDouble) return 1e-12;
  return dtype == at::kFloat ? 1e-6 : 3e-2;
}

void check_alike(const test::Operator& ours, const test::Operator& composite, const Tensors& inputs,
                 at::IntArrayRef shape_of_output) {
  const at::ScalarType dtype = inputs[0].scalar_type();
  const at::Tensor entering = at::randn(shape_of_output, inputs[0].options());
  const test::Outcome a = run(ours, inputs, entering), b = run(composite, inputs, entering);
  check_close(a.value, b.value, tolerance_of(dtype));
  for (size_t i = 0; i < inputs.size(); ++i) {
    INFO("gradient of input " << i);
    check_close(a.gradients[i], b.gradients[i], tolerance_of(dtype));
  }
}

const std::vector<at::ScalarType> kKernelDtypes = {at::kFloat, at::kDouble, at::kBFloat16};
const std::vector<int64_t> kLengths = {5, 3, 1};

// Multiplies each slice by a different factor, so that the slices' gradients differ.
at::Tensor weighed(const Tensors& slices) {
  Tensors parts;
  for (size_t i = 0; i < slices.size(); ++i) {
    parts.push_back(slices[i] * static_cast<double>(i + 1));
  }
  return at::cat(parts, -1);
}

}  // namespace

TEST_CASE("a weight that is stored [in, out] multiplies as its transpose does") {
  at::manual_seed(11);
  for (const at::ScalarType dtype : kKernelDtypes) {
    const Tensors inputs = {at::randn({2, 4, 6}).to(dtype), at::randn({6, 9}).to(dtype),
                            at::randn({9}).to(dtype)};
    INFO(at::toString(dtype));
    check_alike(
        [](const Tensors& in) { return fused::linear(in[0], in[1], in[2], {.in_out = true}); },
        [](const Tensors& in) { return at::linear(in[0], in[1].t(), in[2]); }, inputs, {2, 4, 9});
  }
}

TEST_CASE("slices of one matrix are the matrix cut afterwards") {
  at::manual_seed(12);
  for (const at::ScalarType dtype : kKernelDtypes) {
    for (const bool in_out : {false, true}) {
      INFO(at::toString(dtype) << (in_out ? ", [in, out]" : ""));
      const at::Tensor weight = in_out ? at::randn({6, 9}) : at::randn({9, 6});
      const Tensors inputs = {at::randn({2, 4, 6}).to(dtype), weight.to(dtype),
                              at::randn({9}).to(dtype)};
      check_alike(
          [&](const Tensors& in) {
            return weighed(fused::sliced_linear(in[0], in[1], in[2],
                                                {.lengths = kLengths, .form = {.in_out = in_out}}));
          },
          [&](const Tensors& in) {
            const at::Tensor y = at::linear(in[0], in_out ? in[1].t() : in[1], in[2]);
            return weighed(y.split_with_sizes(kLengths, -1));
          },
          inputs, {2, 4, 9});
    }
  }
}

TEST_CASE("a slice that is known is not multiplied out, and has the gradients of one that is") {
  at::manual_seed(13);
  const Tensors inputs = {at::randn({2, 4, 6}), at::randn({9, 6}), at::randn({9})};
  const at::Tensor entering = at::randn({2, 4, 9});
  const auto with = [&](const Tensors& known) {
    return run(
        [&](const Tensors& in) {
          return weighed(
              fused::sliced_linear(in[0], in[1], in[2], {.lengths = kLengths, .known = known}));
        },
        inputs, entering);
  };
  const at::Tensor value = at::full({2, 4, 3}, 7.0);
  const test::Outcome plain = with({}), known = with({{}, value, {}});
  CHECK(at::equal(known.value.narrow(-1, 5, 3), value * 2.0));
  CHECK(at::equal(known.value.narrow(-1, 0, 5), plain.value.narrow(-1, 0, 5)));
  for (size_t i = 0; i < inputs.size(); ++i) {
    CHECK(at::equal(known.gradients[i], plain.gradients[i]));
  }
}

TEST_CASE("a slice that nobody uses gives its rows a gradient of zero") {
  at::manual_seed(14);
  const at::Tensor x = at::randn({4, 6});
  const at::Tensor weight = at::randn({9, 6}).requires_grad_(true);
  const auto slices = fused::sliced_linear(x, weight, {}, {.lengths = kLengths});
  slices[0].sum().backward();
  CHECK(weight.grad().narrow(0, 0, 5).abs().sum().item<double>() > 0.0);
  CHECK(weight.grad().narrow(0, 5, 4).eq(0).all().item<bool>());
}

TEST_CASE("an activation with the product behind it") {
  at::manual_seed(15);
  for (const auto activation :
       {model::Activation::kSilu, model::Activation::kGeluTanh, model::Activation::kGeluErf,
        model::Activation::kRelu, model::Activation::kRelu2}) {
    for (const at::ScalarType dtype : kKernelDtypes) {
      for (const bool in_out : {false, true}) {
        const at::Tensor weight = in_out ? at::randn({33, 9}) : at::randn({9, 33});
        const Tensors inputs = {at::randn({2, 3, 33}).to(dtype), weight.to(dtype),
                                at::randn({9}).to(dtype)};
        INFO(at::toString(dtype) << (in_out ? ", [in, out]" : ""));
        check_alike(
            [&](const Tensors& in) {
              return fused::activated_linear(in[0], in[1], in[2], activation, {.in_out = in_out});
            },
            [&](const Tensors& in) {
              const at::Tensor active = test::by_aten(activation, in[0]);
              return at::linear(active, in_out ? in[1].t() : in[1], in[2]);
            },
            inputs, {2, 3, 9});
      }
    }
  }
}

TEST_CASE("the first part of a head turns, the rest stays") {
  at::manual_seed(16);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    INFO(at::toString(dtype));
    const at::Tensor angles = at::randn({5, 6});
    const at::Tensor cos = at::cat({angles, angles}, -1).cos().to(dtype);
    const at::Tensor sin = at::cat({angles, angles}, -1).sin().to(dtype);
    const at::Tensor x = at::randn({2, 5, 3, 20}).to(dtype);  // [batch, tokens, heads, width]
    check_alike([&](const Tensors& in) { return fused::rotate(in[0].transpose(1, 2), cos, sin); },
                [&](const Tensors& in) {
                  const at::Tensor heads = in[0].transpose(1, 2);
                  const at::Tensor first = fused::rotate(heads.narrow(-1, 0, 12), cos, sin);
                  return at::cat({first, heads.narrow(-1, 12, 8)}, -1);
                },
                {x}, {2, 3, 5, 20});
  }
}

TEST_CASE("what dropout takes is drawn by where an element is") {
  const fused::Dropout whole = {0.25, fused::dropout_key(3, 4, 5), {0, 2, 32, 0}, 0};
  const at::Tensor x = at::ones({64, 200});
  const at::Tensor left = fused::dropped(x, whole);
  CHECK(at::logical_or(left.eq(0.0), left.eq(static_cast<float>(1.0 / 0.75))).all().item<bool>());
  CHECK(left.eq(0.0).to(at::kFloat).mean().item<double>() == Approx(0.25).margin(0.02));
  // A shard of the columns, of the batch, or of each sequence has the mask of the same elements in
  // the whole tensor.
  fused::Dropout part = whole;
  part.first_column = 13;
  CHECK(at::equal(fused::dropped(x.narrow(1, 13, 50), part), left.narrow(1, 13, 50)));
  part = whole;
  part.rows = {1, 1, 32, 0};
  CHECK(at::equal(fused::dropped(x.narrow(0, 32, 32), part), left.narrow(0, 32, 32)));
  part.rows = {0, 2, 32, 1};
  const at::Tensor shard = left.view({2, 2, 16, 200}).select(1, 1).reshape({32, 200});
  CHECK(at::equal(fused::dropped(x.narrow(0, 0, 32), part), shard));
  // Two token ranges of each sequence, as in context parallelism, and a shard of these ranges have
  // the mask of the same elements in the whole tensor.
  part.rows = {0, 2, 32, 1, {{8, 8}, {16, 8}}};
  const at::Tensor runs = left.view({2, 32, 200}).narrow(1, 8, 16).reshape({32, 200});
  CHECK(at::equal(fused::dropped(x.narrow(0, 0, 32), part), runs));
  const at::Tensor later = left.view({2, 32, 200}).narrow(1, 16, 8).reshape({16, 200});
  CHECK(at::equal(fused::dropped(x.narrow(0, 0, 16), part), later));
  // Masks differ between steps and between modules.
  for (const uint64_t key : {fused::dropout_key(3, 5, 5), fused::dropout_key(3, 4, 6)}) {
    part = whole;
    part.key = key;
    CHECK_FALSE(at::equal(fused::dropped(x, part), left));
  }
  part.p = 1.0;
  CHECK(fused::dropped(x, part).eq(0.0).all().item<bool>());
}

TEST_CASE("an adapter reads what dropout leaves") {
  at::manual_seed(21);
  const fused::Dropout dropout = {0.5, fused::dropout_key(1, 2, 3), {0, 2, 4, 0}, 0};
  const at::Tensor factors = fused::dropped(at::ones({8, 6}), dropout).view({2, 4, 6});
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    INFO(at::toString(dtype));
    const Tensors inputs = {at::randn({2, 4, 6}).to(dtype), at::randn({9, 6}).to(dtype),
                            at::randn({3, 6}).to(dtype), at::randn({9, 3}).to(dtype)};
    check_alike(
        [&](const Tensors& in) {
          return weighed(fused::adapted_linear(in[0], in[1], {}, {in[2], in[3], 0.5, dropout},
                                               {.lengths = kLengths}));
        },
        [&](const Tensors& in) {
          const at::Tensor low = at::linear(in[0] * factors.to(dtype), in[2]);
          const at::Tensor y = at::linear(in[0], in[1]) + 0.5 * at::linear(low, in[3]);
          return weighed(y.split_with_sizes(kLengths, -1));
        },
        inputs, {2, 4, 9});
  }
}

}  // namespace am
