// Rotary frequencies; the families' use of them is compared with transformers in
// parallel/transformers_test.cpp.
#include "am/nn/rope.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

namespace am::nn {

TEST_CASE("llama3 keeps short waves, divides long ones, blends between") {
  model::RopeConfig rope;
  rope.type = "llama3";
  rope.theta = 10000.0;
  rope.factor = 8.0;
  rope.low_freq_factor = 1.0;
  rope.high_freq_factor = 4.0;
  rope.original_max_position_embeddings = 8192;
  const at::Tensor scaled = rope_inverse_frequencies(rope, 128);
  rope.type = "default";
  const at::Tensor plain = rope_inverse_frequencies(rope, 128);
  CHECK(plain[0].item<double>() == 1.0);
  CHECK(plain[32].item<double>() == Approx(0.01));
  CHECK(scaled[0].item<double>() == plain[0].item<double>());  // wavelength 2 pi < 8192 / 4
  CHECK(scaled[63].item<double>() == Approx(plain[63].item<double>() / 8.0));  // > 8192
  bool blended = false;
  for (int64_t i = 0; i < 64; ++i) {
    const double ratio = scaled[i].item<double>() / plain[i].item<double>();
    CHECK(ratio <= 1.0);
    CHECK(ratio >= 0.125 - 1e-9);
    blended = blended || (ratio > 0.13 && ratio < 0.99);
  }
  CHECK(blended);
}

TEST_CASE("linear scaling divides every frequency") {
  model::RopeConfig rope;
  const at::Tensor plain = rope_inverse_frequencies(rope, 8);
  rope.type = "linear";
  rope.factor = 4.0;
  CHECK(at::allclose(rope_inverse_frequencies(rope, 8), plain / 4.0));
}

TEST_CASE("a rotation keeps lengths, and position 0 does nothing") {
  const at::Tensor frequencies = rope_inverse_frequencies({}, 8);
  const at::Tensor x = at::arange(16, at::kFloat).view({1, 1, 2, 8});
  const at::Tensor y = rotate(x, make_rotation(frequencies, 0, 2, at::kFloat));
  CHECK(at::equal(y.select(2, 0), x.select(2, 0)));
  CHECK(y.norm().item<double>() == Approx(x.norm().item<double>()));
  const at::Tensor later = rotate(x, make_rotation(frequencies, 1, 2, at::kFloat));
  CHECK(at::allclose(later.select(2, 0), rotate(x.select(2, 0).unsqueeze(2),
                                                make_rotation(frequencies, 1, 1, at::kFloat))
                                             .select(2, 0)));
}

}  // namespace am::nn
