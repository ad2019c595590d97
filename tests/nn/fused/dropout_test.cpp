// Tests that dropout and noise on the stand-in device (support/stand_in_device.h) are bitwise equal
// to those of the CPU's kernels.
#include "am/nn/fused/dropout.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "support/stand_in_device.h"

namespace am::nn::fused {

TEST_CASE("a device drops the elements that the host drops, to the bit") {
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16);
  const double p = GENERATE(0.0, 0.1, 0.5, 1.0);
  const int64_t first_column = GENERATE(0, 5, 4096);
  Dropout dropout = {p, dropout_key(3, 70, 0x9e3779b97f4a7c15U), {}, first_column};
  dropout.rows = {.first_sequence = int64_t{1} << 33, .sequences = 2, .length = 6, .part = 1};
  at::Tensor x = at::arange(6 * 37, at::kDouble).sub(100).div(7).view({6, 37}).to(dtype);
  x[0][0] = std::numeric_limits<double>::infinity();
  x[1].fill_(-0.0);
  const at::Tensor wanted = dropped(x, dropout);
  const at::Tensor got = dropped(x.to(test::stand_in_device()), dropout).cpu();
  INFO(dtype << " " << p << " " << first_column);
  CHECK(at::equal(got.view(at::kByte), wanted.view(at::kByte)));
}

TEST_CASE("runs of a cut sequence keep their draws on a device") {
  Dropout dropout = {0.3, dropout_key(1, 2, 3), {}, 0};
  dropout.rows = {.first_sequence = 3, .sequences = 2, .length = 16, .runs = {{2, 3}, {11, 3}}};
  const at::Tensor x = at::ones({12, 40});
  const at::Tensor wanted = dropped(x, dropout);
  CHECK(at::equal(dropped(x.to(test::stand_in_device()), dropout).cpu(), wanted));
  CHECK(wanted.eq(0).any().item<bool>());
}

TEST_CASE("noise is uniform, and the same on a device and in a part of a sequence") {
  Noise noise = {.largest = 0.25, .key = dropout_key(3, 70, 11), .rows = {}};
  noise.rows = {.first_sequence = 5, .sequences = 2, .length = 64};
  const at::Tensor x = at::arange(128 * 48, at::kFloat).view({2, 64, 48});
  const at::Tensor added = with_noise(x.to(at::kDouble), noise) - x;
  CHECK(added.abs().max().item<double>() < 0.25);
  CHECK(added.abs().max().item<double>() > 0.249);
  CHECK(std::abs(added.mean().item<double>()) < 0.01);
  CHECK(added.square().mean().item<double>() == Approx(0.25 * 0.25 / 3).epsilon(0.05));
  const at::Tensor wanted = with_noise(x, noise);
  CHECK(at::equal(with_noise(x.to(test::stand_in_device()), noise).cpu(), wanted));
  Noise part = noise;
  part.rows.runs = {{8, 4}, {60, 4}};
  const at::Tensor piece = at::cat({x.narrow(1, 8, 4), x.narrow(1, 60, 4)}, 1);
  CHECK(at::equal(with_noise(piece, part),
                  at::cat({wanted.narrow(1, 8, 4), wanted.narrow(1, 60, 4)}, 1)));
  Noise second = noise;
  second.rows.first_sequence = 6;
  second.rows.sequences = 1;
  CHECK(at::equal(with_noise(x[1], second), wanted[1]));
  at::Tensor leaf = at::ones({4, 8}).requires_grad_(true);
  noise.rows = {.sequences = 1, .length = 4};
  with_noise(leaf, noise).sum().backward();
  CHECK(at::equal(leaf.grad(), at::ones({4, 8})));
}

}  // namespace am::nn::fused
