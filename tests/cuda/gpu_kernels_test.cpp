// Kernels of the CUDA plugin. Their values as operators are checked by fused_operators_test.cpp.
#include "am/tensor/gpu_kernels.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
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

// Returns the box's values as the host draws them.
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

// GPUs must have kernels. The host has them in am_kernel_tests only.
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
    CHECK(kernels->rotate(at::empty({1, 4, 8, 128}, x.options()), heads, table, table, false));
    CHECK_FALSE(kernels->rotate(at::empty({1, 4, 8, 128}, x.options()), heads,
                                table.narrow(1, 0, 6).contiguous(), table, false));
  }
}

}  // namespace am
