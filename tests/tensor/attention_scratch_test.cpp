// Tests that a dry run counts the scratch memory of ATen's attention kernel for the host.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/tensor/memory_meter.h"
#include "am/tensor/meta_operators.h"

namespace am {
namespace {

at::Tensor heads(at::Device device, at::ScalarType dtype, int64_t length, int64_t head_dim) {
  const auto options = at::TensorOptions(dtype).device(device);
  return at::zeros({2, length, 4, head_dim}, options).transpose(1, 2);
}

int64_t forward_peak(const at::Tensor& x) {
  const tensor::MemoryMeter meter;
  const auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(x, x, x, 0.0, true);
  return meter.peak().total();
}

int64_t backward_peak(const at::Tensor& x) {
  const auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(x, x, x, 0.0, true);
  const tensor::MemoryMeter meter;
  at::_scaled_dot_product_flash_attention_for_cpu_backward(x, x, x, x, out, sums, 0.0, true);
  return meter.peak().total();
}

}  // namespace

TEST_CASE("a dry run knows what the attention kernel takes for itself") {
  tensor::register_meta_operators();
  const int64_t length = GENERATE(8, 16, 128, 200, 256, 800, 1024);
  const int64_t head_dim = GENERATE(6, 32, 64);
  INFO(length << " positions, heads of " << head_dim);
  const at::Tensor wide = heads(at::kCPU, at::kFloat, length, head_dim);
  const at::Tensor wide_dry = heads(at::kMeta, at::kFloat, length, head_dim);
  CHECK(forward_peak(wide_dry) == forward_peak(wide));
  CHECK(backward_peak(wide_dry) == backward_peak(wide));
  // The dry run excludes oneDNN's scratch memory for bfloat16 products, so its peaks are lower
  // bounds.
  const at::Tensor narrow = heads(at::kCPU, at::kBFloat16, length, head_dim);
  const at::Tensor narrow_dry = heads(at::kMeta, at::kBFloat16, length, head_dim);
  CHECK(forward_peak(narrow_dry) <= forward_peak(narrow));
  CHECK(backward_peak(narrow_dry) <= backward_peak(narrow));
  CHECK(backward_peak(narrow_dry) >= backward_peak(narrow) / 2);
}

}  // namespace am
