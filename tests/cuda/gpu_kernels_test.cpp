// Tests the kernels of the CUDA plugin by themselves. fused_operators_test.cpp checks the values of
// the operators that use them.
#include "am/tensor/gpu_kernels.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "am/base/random.h"
#include "am/mesh/indices.h"
#include "cuda/operator_check.h"

namespace am {
namespace {

using test::operators_device;
using test::poisoned;

constexpr int64_t kRows = 300, kColumns = 1003;
const Shape kWhole = {kRows, kColumns};
const mesh::Box kBox = {{17, 5}, {200, 777}};

// Returns the values of kBox as the host draws them.
template <typename Fill>
at::Tensor on_host(const Fill& fill) {
  at::Tensor out = at::empty(kBox.shape, at::kFloat);
  auto* values = out.mutable_data_ptr<float>();
  for (int64_t row = 0; row < kBox.shape[0]; ++row) {
    const int64_t at = row * kBox.shape[1];
    fill(values + at, mesh::flat_index(kBox, kWhole, at), kBox.shape[1]);
  }
  return out;
}

// Returns whether the device has kernels: always on GPUs, and on the host only in am_kernel_tests,
// the program that compiles the kernels for the host.
bool have_kernels() {
  const bool have = tensor::gpu_kernels(poisoned({1}, at::kFloat)) != nullptr;
  CHECK((have || !operators_device().is_cuda()));
  return have;
}

void check_draws(const tensor::Draws& draws, const at::Tensor& wanted) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor out = poisoned(kBox.shape, dtype);
    REQUIRE(tensor::gpu_kernels(out)->draw(out, kWhole, kBox, draws));
    CHECK(at::equal(out.cpu(), wanted.to(dtype)));
  }
}

}  // namespace

TEST_CASE("a GPU draws the host's bits") {
  if (!have_kernels()) return;
  const NormalStream normal(7, "model.layers.3.mlp.up_proj.weight");
  check_draws({normal.key(), normal.stream(), true, 0.02F},
              on_host([&](float* out, int64_t first, int64_t count) {
                normal.fill(out, first, count, 0.0F, 0.02F);
              }));
  const UniformStream uniform(8, "lora_A.weight");
  check_draws({uniform.key(), uniform.stream(), false, 0.125F},
              on_host([&](float* out, int64_t first, int64_t count) {
                uniform.fill(out, first, count, 0.125F);
              }));
}

TEST_CASE("kernels run on a GPU in place of ATen's operators") {
  if (!have_kernels()) return;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = at::randn({8, 512}, poisoned({1}, dtype).options()), y = at::empty_like(x);
    const tensor::GpuKernels* kernels = tensor::gpu_kernels(x);
    REQUIRE(kernels != nullptr);
    CHECK(kernels->gated(y, x, x, model::Activation::kSilu));
    CHECK_FALSE(kernels->gated(y, x, x, model::Activation::kOther));
    const at::Tensor sums = poisoned({8}, at::kFloat);
    const at::Tensor labels = at::zeros({8}, x.options().dtype(at::kLong));
    CHECK(kernels->logit_sums(sums, sums.clone(), sums.clone(), x, labels, 0));
    const at::Tensor heads = x.view({1, 8, 4, 128}), table = at::randn({4, 128}, x.options());
    const at::Tensor turned = at::empty({1, 4, 8, 128}, x.options());
    CHECK(kernels->rotate(turned, heads, {}, {}, table, table, false));
    CHECK_FALSE(
        kernels->rotate(turned, heads, {}, {}, table.narrow(1, 0, 6).contiguous(), table, false));
    CHECK(kernels->drop(y, x, labels, 0, 0.5, 1));
    CHECK(kernels->sum_of_rows(y, x, labels.unsqueeze(1), {}));
    CHECK(kernels->rms_norm(y, sums, {}, x, {}, x[0], 1e-6, model::NormKind::kRms));
    CHECK(kernels->rms_norm_gradients(y, {}, x, {}, x, sums, x[0], model::NormKind::kRms));
  }
}

// Prints the rates, in TB/s, at which kernels read and write memory. scripts/gpu_check shows these
// rates. The test does not run by default.
TEST_CASE("rates of kernels", "[.kernel_rates]") {
  if (!have_kernels()) return;
  const bool on_host = operators_device().is_cpu();
  const int64_t rows = on_host ? 8 : 8192, width = on_host ? 128 : 4096;
  const int64_t vocabulary = on_host ? 512 : 128256;
  const auto made = [](at::IntArrayRef sizes) {
    return at::randn(sizes, at::TensorOptions(at::kBFloat16).device(operators_device()));
  };
  const at::Tensor x = made({rows, width}), more = made({rows, width}), third = made({rows, width}),
                   y = made({rows, width}), z = made({rows, width}), weight = made({width});
  const at::Tensor inverse = at::ones({rows}, x.options().dtype(at::kFloat));
  const at::Tensor ids = at::arange(rows, x.options().dtype(at::kLong));
  const at::Tensor twice = at::stack({ids, ids}, 1);
  const at::Tensor logits = made({rows, vocabulary}), table = made({rows, 128});
  const at::Tensor heads = x.view({1, rows, -1, 128}).transpose(1, 2);
  const tensor::GpuKernels& kernels = *tensor::gpu_kernels(x);
  // Prints the rate of a kernel. `passes` is the number of times that the kernel reads or writes a
  // tensor of the size of `like`.
  const auto rate = [&](const char* name, const at::Tensor& like, int passes,
                        const std::function<bool()>& launch) {
    constexpr int kLaunches = 20;
    const auto wait = [&] { inverse[0].item<float>(); };
    REQUIRE(launch());
    wait();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) launch();
    wait();
    const auto seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto bytes = static_cast<double>(like.nbytes()) * passes * kLaunches;
    std::printf("rate of %s: %.4g TB/s\n", name, bytes / seconds / 1e12);
  };
  using model::Activation, model::NormKind;
  rate("rms_norm of a sum", x, 4,
       [&] { return kernels.rms_norm(y, inverse, z, x, more, weight, 1e-6, NormKind::kRms); });
  rate("rms_norm_gradients", x, 4, [&] {
    return kernels.rms_norm_gradients(y, weight, third, more, x, inverse, weight, NormKind::kRms);
  });
  rate("gated", x, 3, [&] { return kernels.gated(y, x, more, Activation::kSilu); });
  rate("gated_gradients", x, 5,
       [&] { return kernels.gated_gradients(y, z, third, x, more, Activation::kSilu); });
  rate("rotate", x, 2, [&] {
    return kernels.rotate(y.view({1, rows, -1, 128}), heads, {}, {}, table, table, false);
  });
  rate("drop", x, 2, [&] { return kernels.drop(y, x, ids, 0, 0.1, 7); });
  rate("sum_of_rows", x, 3, [&] { return kernels.sum_of_rows(y, x, twice, {}); });
  rate("logit_sums", logits, 1, [&] {
    return kernels.logit_sums(inverse, inverse.clone(), inverse.clone(), logits, ids, 0);
  });
  rate("cross_entropy_gradient", logits, 2, [&] {
    return kernels.cross_entropy_gradient(logits, logits, inverse, ids, 0, -100, inverse[0]);
  });
}

}  // namespace am
