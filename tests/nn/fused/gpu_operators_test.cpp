// Runs, on the host, the code that calls ATen's GPU kernels for RMSNorm, and compares the results
// with those of the host's own kernels. ATen has a host kernel only for RMSNorm's forward, so this
// file registers a host kernel for backward. Also tests the loss, which processes more logits at a
// time on a GPU.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>

#include "am/nn/fused/cross_entropy.h"
#include "am/nn/fused/device.h"
#include "am/nn/fused/rms_norm.h"
#include "support/operators.h"

namespace am {
namespace {

using model::NormKind;

// Replaces ATen's GPU kernel for RMSNorm's backward. Like that kernel, requires equal dtypes of x
// and weight and a contiguous gradient, and returns undefined tensors for gradients that are not
// requested.
std::tuple<at::Tensor, at::Tensor> norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                                 at::IntArrayRef shape, const at::Tensor& inverse,
                                                 const std::optional<at::Tensor>& weight,
                                                 std::array<bool, 2> asked) {
  TORCH_CHECK(x.scalar_type() == weight->scalar_type() && gradient.is_contiguous());
  TORCH_CHECK(shape.size() == 1 && shape[0] == x.size(-1));
  const at::ScalarType wide = inverse.scalar_type();
  const at::Tensor n = x.to(wide) * inverse, of_n = gradient.to(wide) * weight->to(wide);
  const at::Tensor of_x = (of_n - n * (of_n * n).mean(-1, true)) * inverse;
  const at::Tensor of_weight = (gradient.to(wide) * n).reshape({-1, x.size(-1)}).sum(0);
  return {asked[0] ? of_x.to(x.scalar_type()) : at::Tensor(),
          asked[1] ? of_weight.to(x.scalar_type()) : at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_fused_rms_norm_backward", TORCH_FN(norm_backward));
}

}  // namespace

TEST_CASE("rms norm by a GPU's kernels is the host's up to its rounding") {
  at::manual_seed(3);
  const auto kind = GENERATE(NormKind::kRms, NormKind::kRmsWide, NormKind::kRmsPlusOne);
  const auto dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16);
  const auto of_weight = GENERATE(at::kFloat, at::kDouble, at::kBFloat16);
  if (kind == NormKind::kRms && dtype != of_weight) return;  // every device uses a composite
  const test::Operator norm = [kind](const test::Tensors& in) {
    return nn::fused::rms_norm(in[0], in[1], 1e-5, kind);
  };
  const test::Tensors inputs = {(at::randn({3, 7, 40}) * 3.0).to(dtype),
                                (at::randn({40}) * 0.02).to(of_weight)};
  const at::Tensor entering = at::randn({3, 40, 7}).to(dtype).transpose(1, 2);
  const test::Outcome host = test::run(norm, inputs, entering);
  const nn::fused::PassForGpu gpu;
  const test::Outcome ours = test::run(norm, inputs, entering);
  // kRms rounds twice on the host, and once on a GPU. 1 + weight is never rounded.
  const double allowed = dtype == at::kDouble  ? (of_weight == at::kDouble ? 1e-13 : 1e-7)
                         : dtype == at::kFloat ? 1e-6
                                               : (kind == NormKind::kRms ? 8e-3 : 4e-3);
  test::check_close(ours.value, host.value, allowed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    INFO("gradient of input " << i);
    test::check_close(ours.gradients[i], host.gradients[i],
                      std::max(allowed, of_weight == at::kBFloat16 ? 8e-3 : 0.0));
  }
  // Only x or only the weight requires a gradient.
  for (const size_t trained : {0, 1}) {
    const test::Tensors leaves = {inputs[0].detach(), inputs[1].detach()};
    leaves[trained].set_requires_grad(true);
    norm(leaves).backward(entering);
    CHECK(at::equal(leaves[trained].grad(), ours.gradients[trained]));
  }
}

TEST_CASE("the loss reads more logits at a time on a GPU") {
  static std::atomic<int> exponentials = 0;
  const auto pieces = [] {
    const at::Tensor logits = at::zeros({9, 1 << 20}, at::kHalf);  // float16 has no fused kernels
    exponentials = 0;
    nn::fused::cross_entropy_sum(logits, at::zeros({9}, at::kLong), {});
    return exponentials.load();
  };
  const auto handle =
      at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function)
                                                           -> std::unique_ptr<at::ObserverContext> {
                              if (std::string_view(function.name()) == "aten::exp_") ++exponentials;
                              return nullptr;
                            }).scopes({at::RecordScope::FUNCTION}));
  CHECK(pieces() == 3);
  const nn::fused::PassForGpu gpu;
  CHECK(pieces() == 1);
  at::removeCallback(handle);
}

}  // namespace am
