#include "am/values/moments.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "support/stand_in_device.h"

using am::values::Moments;

namespace {

Moments of(const at::Tensor& tensor) {
  Moments moments;
  moments.add(tensor);
  return moments;
}

at::Tensor ramp(int64_t count) {
  return at::arange(count, at::TensorOptions(at::kDouble)).square().sin() + 3.0;
}

}  // namespace

TEST_CASE("moments equal torch's, over several blocks", "[inspect]") {
  const at::Tensor values = ramp((int64_t{1} << 20) * 2 + 77);
  const Moments moments = of(values);
  CHECK(moments.numel == values.numel());
  CHECK(moments.min == values.min().item<double>());
  CHECK(moments.max == values.max().item<double>());
  CHECK(moments.mean == Approx(values.mean().item<double>()).epsilon(1e-13));
  CHECK(moments.std() == Approx(values.std().item<double>()).epsilon(1e-12));
  CHECK(moments.norm() == Approx(values.norm().item<double>()).epsilon(1e-13));
}

TEST_CASE("merged parts equal the whole", "[inspect]") {
  const at::Tensor values = ramp(1000);
  Moments merged;
  merged.merge(of(values.narrow(0, 0, 1)));
  merged.merge(of(values.narrow(0, 1, 0)));
  const auto packed = of(values.narrow(0, 1, 999)).pack();
  merged.merge(Moments::unpack(packed.data()));
  const Moments whole = of(values);
  CHECK(merged.numel == 1000);
  CHECK(merged.mean == Approx(whole.mean).epsilon(1e-14));
  CHECK(merged.std() == Approx(whole.std()).epsilon(1e-13));
  CHECK(merged.min == whole.min);
}

TEST_CASE("a device's values are summed there", "[inspect]") {
  const double inf = std::numeric_limits<double>::infinity();
  at::Tensor values = ramp(am::values::kDeviceBlock + 77);
  const bool all_finite = GENERATE(true, false);
  if (!all_finite) {
    values.narrow(0, 3, 5).fill_(NAN);
    values.narrow(0, 20, 2).copy_(at::tensor({inf, -inf}, at::kDouble));
  }
  const Moments wanted = of(values);
  const Moments got = of(values.to(am::test::stand_in_device()));
  CHECK(got.numel == wanted.numel);
  CHECK(got.nan == wanted.nan);
  CHECK(got.inf == wanted.inf);
  CHECK(got.min == wanted.min);
  CHECK(got.max == wanted.max);
  CHECK(got.mean == Approx(wanted.mean).epsilon(1e-13));
  CHECK(got.std() == Approx(wanted.std()).epsilon(1e-12));
  CHECK(got.norm() == Approx(wanted.norm()).epsilon(1e-13));
  CHECK(got.absolutes == Approx(wanted.absolutes).epsilon(1e-13));
  const at::Tensor none = at::full({9}, NAN).to(am::test::stand_in_device());
  CHECK(of(none).finite() == 0);
  CHECK(of(none).nan == 9);
}

TEST_CASE("nan and infinities are counted and left out", "[inspect]") {
  const float inf = std::numeric_limits<float>::infinity();
  const Moments moments = of(at::tensor({1.0F, NAN, inf, 3.0F, -inf, NAN}));
  CHECK(moments.numel == 6);
  CHECK(moments.nan == 2);
  CHECK(moments.inf == 2);
  CHECK(moments.mean == 2.0);
  CHECK(moments.std() == Approx(std::sqrt(2.0)));
  CHECK(moments.max == 3.0);
}

TEST_CASE("too few values have no deviation", "[inspect]") {
  CHECK(std::isnan(of(at::tensor({5.0F})).std()));
  CHECK(std::isnan(of(at::empty({0})).std()));
  CHECK(of(at::empty({0, 4})).numel == 0);
  CHECK(of(at::full({3}, NAN)).finite() == 0);
  CHECK(of(at::tensor(2.0F)).mean == 2.0);
}

TEST_CASE("integers and bfloat16 are turned to double first", "[inspect]") {
  CHECK(of(at::tensor({1, 2, 3}, at::TensorOptions(at::kLong))).mean == 2.0);
  // A sum that is accumulated in bfloat16 would stop at 256, because 256 + 1 is rounded to 256.
  CHECK(of(at::ones({300}, at::TensorOptions(at::kBFloat16))).mean == 1.0);
}

TEST_CASE("a narrow dtype's moments are those of its values in double", "[inspect]") {
  const at::Tensor noise = ramp(100000) - 3.0;
  at::Tensor jump = noise * 1e-2 + 1000.0;  // the first values are far from the mean
  jump.narrow(0, 0, 300).fill_(-1000.0);
  at::Tensor far = noise * 1e-3 + 1e4;
  for (const at::Tensor& values : {noise, jump, far, at::full({1000}, -0.7, at::kDouble),
                                   noise.narrow(0, 0, 17), noise * 1e-30}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor narrow = values.to(dtype);
      INFO(c10::toString(dtype) << " " << values[0].item<double>());
      const Moments found = of(narrow), wanted = of(narrow.to(at::kDouble));
      CHECK(found.min == wanted.min);
      CHECK(found.max == wanted.max);
      CHECK(found.mean == Approx(wanted.mean).epsilon(1e-12).margin(1e-45));
      CHECK(found.std() == Approx(wanted.std()).epsilon(1e-9).margin(1e-12 * wanted.max_abs()));
      CHECK(found.norm() == Approx(wanted.norm()).epsilon(1e-12));
      CHECK(found.absolutes == Approx(wanted.absolutes).epsilon(1e-12));
    }
  }
}
