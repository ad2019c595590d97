// Compares quantisation to NF4 with that of bitsandbytes (tests/data/nf4.safetensors, made by
// scripts/fixtures/make_nf4.py).
#include "am/tensor/nf4.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <limits>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
#include "am/layout/quantization.h"
#include "support/plans.h"

namespace am {
namespace {

struct Quantized {
  at::Tensor codes, absmax;
};

Quantized quantized(const at::Tensor& values) {
  Quantized out = {at::empty({values.numel() / 2}, at::kByte),
                   at::empty({values.numel() / layout::kNf4Block}, at::kFloat)};
  tensor::quantize_nf4(values.view({-1}), out.codes, out.absmax);
  return out;
}

at::Tensor dequantized(const Quantized& quantized, at::ScalarType dtype) {
  at::Tensor out = at::empty({quantized.codes.numel() * 2}, dtype);
  tensor::dequantize_nf4(quantized.codes.unsqueeze(0), quantized.absmax.unsqueeze(0),
                         out.unsqueeze(0));
  return out;
}

}  // namespace

TEST_CASE("codes, magnitudes and values of NF4 are those of bitsandbytes") {
  const auto source = frameworks::open_tensor_source(test::data_path("nf4.safetensors"));
  for (const std::string dtype : {"float32", "bfloat16"}) {
    INFO(dtype);
    const auto of = [&](const char* what) {
      return checkpoint::read_all(*source, cat(dtype, ".", what));
    };
    const at::Tensor values = of("values");
    const Quantized ours = quantized(values);
    CHECK(at::equal(ours.codes, of("codes")));
    CHECK(at::equal(ours.absmax, of("absmax")));
    CHECK(at::equal(dequantized(ours, values.scalar_type()), of("dequantized").view({-1})));
  }
}

TEST_CASE("dequantized values keep their codes and magnitudes") {
  at::manual_seed(1);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor values =
        (at::randn({64, 1024}) * at::logspace(-8, 8, 64).unsqueeze(1)).to(dtype);
    const Quantized once = quantized(values);
    const at::Tensor first = dequantized(once, dtype);
    const Quantized twice = quantized(first);
    CHECK(at::equal(once.codes, twice.codes));
    CHECK(at::equal(first, dequantized(twice, dtype)));
  }
}

TEST_CASE("more values than a chunk are dequantized like each of its parts") {
  at::manual_seed(2);
  const at::Tensor values = at::randn({layout::kNf4Chunk + 5 * layout::kNf4Block});
  const at::Tensor whole = dequantized(quantized(values), at::kFloat);
  const at::Tensor end =
      values.narrow(0, layout::kNf4Chunk - layout::kNf4Block, 6 * layout::kNf4Block);
  CHECK(at::equal(dequantized(quantized(end.contiguous()), at::kFloat),
                  whole.narrow(0, layout::kNf4Chunk - layout::kNf4Block, end.numel())));
}

TEST_CASE("a block with a value that is not finite has such a magnitude") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    at::Tensor values = at::ones({2 * layout::kNf4Block});
    values[layout::kNf4Block + 3].fill_(bad);
    const at::Tensor absmax = quantized(values).absmax;
    CHECK(at::isfinite(absmax).equal(at::tensor({1, 0}).to(at::kBool)));
  }
}

}  // namespace am
