// Tests the frequencies of rotary embeddings. parallel/transformers_test.cpp compares whole models
// with transformers.
#include "am/nn/rope.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "am/model/rope_config.h"

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
  CHECK(scaled[63].item<double>() == Approx(plain[63].item<double>() / 8.0));  // wavelength > 8192
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

TEST_CASE("longrope has factors for long sequences and others for short ones") {
  model::RopeConfig rope;
  const at::Tensor plain = rope_inverse_frequencies(rope, 4);
  rope.type = "longrope";
  rope.original_max_position_embeddings = 16;
  rope.factor = 4.0;
  rope.short_factor = {1.0, 2.0};
  rope.long_factor = {4.0, 8.0};
  const at::Tensor at_most = rope_inverse_frequencies(rope, 4, 16);
  const at::Tensor beyond = rope_inverse_frequencies(rope, 4, 17);
  CHECK(at::allclose(at_most, plain / at::tensor({1.0F, 2.0F})));
  CHECK(at::allclose(beyond, plain / at::tensor({4.0F, 8.0F})));
  CHECK(model::attention_factor(rope) == Approx(std::sqrt(1.5)));  // 1.5 = 1 + ln 4 / ln 16
}

TEST_CASE("yarn keeps what turns often, divides what turns rarely") {
  model::RopeConfig rope;
  const at::Tensor plain = rope_inverse_frequencies(rope, 64);
  rope.type = "yarn";
  rope.factor = 8.0;
  rope.original_max_position_embeddings = 4096;
  const at::Tensor scaled = rope_inverse_frequencies(rope, 64);
  CHECK(scaled[0].item<float>() == plain[0].item<float>());
  CHECK(scaled[31].item<double>() == Approx(plain[31].item<double>() / 8.0));
  CHECK(model::attention_factor(rope) == Approx(0.1 * std::log(8.0) + 1.0));
  rope.mscale = rope.mscale_all_dim = 1.0;
  CHECK(model::attention_factor(rope) == 1.0);
  rope.attention_factor = 1.25;
  CHECK(model::attention_factor(rope) == 1.25);
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
