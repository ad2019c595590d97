// Compares matrix products in FP8 with torchao's, and tests linear layers in FP8.
#include "am/nn/fused/fp8.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
#include "am/nn/fused/adapted_linear.h"
#include "am/nn/fused/gated.h"
#include "am/nn/fused/linear.h"
#include "support/operators.h"
#include "support/plans.h"

namespace am {
namespace {

namespace fused = nn::fused;
using config::Fp8Recipe;
using test::check_close;
using test::Tensors;

const std::vector<std::pair<Fp8Recipe, std::string>> kRecipes = {
    {Fp8Recipe::kTensorwise, "tensorwise"}, {Fp8Recipe::kRowwise, "rowwise"}};

}  // namespace

TEST_CASE("products in FP8 are those of torchao") {
  const auto source = frameworks::open_tensor_source(test::data_path("fp8.safetensors"));
  const auto read = [&](const std::string& name) { return checkpoint::read_all(*source, name); };
  const at::Tensor x = read("x"), weight = read("weight"), g = read("g");
  for (const auto& [recipe, name] : kRecipes) {
    INFO(name);
    const fused::Fp8 fp8 = {.recipe = recipe};
    check_close(fused::fp8_output(x, weight, fp8), read(name + ".y"), 1e-6);
    check_close(fused::fp8_gradient_of_x(g, weight, fp8), read(name + ".of_x"), 1e-6);
    check_close(fused::fp8_gradient_of_weight(g, x, fp8), read(name + ".of_weight"), 1e-6);
    // The exact product differs from the FP8 product, by less than FP8's precision.
    const double exact =
        (fused::fp8_output(x, weight, fp8) - x.mm(weight.t())).norm().item<double>();
    const double relative = exact / x.mm(weight.t()).norm().item<double>();
    CHECK(relative > 1e-3);
    CHECK(relative < 6e-2);
  }
}

TEST_CASE("numbers that FP8 represents are multiplied exactly, and zeros do not divide by zero") {
  for (const auto& [recipe, name] : kRecipes) {
    INFO(name);
    const fused::Fp8 fp8 = {.recipe = recipe};
    at::Tensor x = at::randint(-7, 8, {16, 32}).to(at::kFloat);
    at::Tensor weight = at::randint(-7, 8, {16, 32}).to(at::kFloat);
    x.select(1, 0).fill_(7.0);  // the scale is then 448 / 7 = 64, a power of two
    weight.select(1, 0).fill_(7.0);
    CHECK(at::equal(fused::fp8_output(x, weight, fp8), x.mm(weight.t())));
    x.zero_();
    CHECK(at::equal(fused::fp8_output(x, weight, fp8), at::zeros({16, 16})));
  }
}

TEST_CASE("linear layers in FP8: all forms of the layer multiply alike") {
  at::manual_seed(3);
  for (const auto& [recipe, name] : kRecipes) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      INFO(name << " " << at::toString(dtype));
      const fused::Fp8 fp8 = {.recipe = recipe};
      const double tolerance = dtype == at::kBFloat16 ? 2e-2 : 1e-6;
      const Tensors in = {at::randn({2, 8, 32}).to(dtype), at::randn({48, 32}).to(dtype),
                          at::randn({48}).to(dtype)};
      const at::Tensor g = at::randn({2, 8, 48}).to(dtype);
      const test::Outcome plain = test::run(
          [&](const Tensors& all) { return fused::linear(all[0], all[1], all[2], {.fp8 = &fp8}); },
          in, g);
      const at::Tensor x_NI = in[0].view({16, 32}), g_NO = g.view({16, 48});
      check_close(plain.value.view({16, 48}), fused::fp8_output(x_NI, in[1], fp8) + in[2],
                  tolerance);
      CHECK(
          at::equal(plain.gradients[0].view({16, 32}), fused::fp8_gradient_of_x(g_NO, in[1], fp8)));
      CHECK(at::equal(plain.gradients[1], fused::fp8_gradient_of_weight(g_NO, x_NI, fp8)));

      const test::Outcome turned = test::run(
          [&](const Tensors& all) {
            return fused::linear(all[0], all[1], all[2], {.in_out = true, .fp8 = &fp8});
          },
          {in[0], in[1].t().contiguous(), in[2]}, g);
      CHECK(at::equal(turned.value, plain.value));
      CHECK(at::equal(turned.gradients[1].t(), plain.gradients[1]));

      const Tensors known =
          test::run(
              [&](const Tensors& all) {
                return at::cat(fused::sliced_linear(all[0], all[1], all[2],
                                                    {.lengths = {48}, .form = {.fp8 = &fp8}}),
                               -1);
              },
              in, g)
              .gradients;
      for (size_t i = 0; i < known.size(); ++i) CHECK(at::equal(known[i], plain.gradients[i]));

      // A LoRA adapter whose B is zero does not change the output. The adapter's own products are
      // not in FP8.
      const at::Tensor a = at::randn({4, 32}).to(dtype), b = at::zeros({48, 4}).to(dtype);
      const test::Outcome adapted = test::run(
          [&](const Tensors& all) {
            return fused::adapted_linear(all[0], all[1], all[2], {all[3], all[4], 2.0, {}},
                                         {.lengths = {48}, .form = {.fp8 = &fp8}})[0];
          },
          {in[0], in[1], in[2], a, b}, g);
      CHECK(at::equal(adapted.value, plain.value));
      check_close(adapted.gradients[4], 2.0 * g_NO.t().mm(x_NI.mm(a.t())), tolerance);

      const Tensors wide = {at::randn({2, 8, 32}).to(dtype), at::randn({2, 8, 32}).to(dtype), in[1],
                            in[2]};
      const auto silu = model::Activation::kSilu;
      const test::Outcome fused_down = test::run(
          [&](const Tensors& all) {
            return fused::gated_linear(all[0], all[1], all[2], all[3], silu, {.fp8 = &fp8});
          },
          wide, g);
      const test::Outcome two = test::run(
          [&](const Tensors& all) {
            return fused::linear(fused::gated(all[0], all[1], silu), all[2], all[3], {.fp8 = &fp8});
          },
          wide, g);
      CHECK(at::equal(fused_down.value, two.value));
      for (size_t i = 0; i < wide.size(); ++i) {
        CHECK(at::equal(fused_down.gradients[i], two.gradients[i]));
      }
    }
  }
}

}  // namespace am
