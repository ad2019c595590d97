// Tests the distance of two blocks of values. Narrow dtypes use a vectorized kernel, other dtypes
// ATen functions; both must return the same numbers.
#include "am/values/pairs.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace am::values {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Distance distance_of(const at::Tensor& a, const at::Tensor& b) {
  Distance distance;
  distance.add(a, b);
  return distance;
}

Distance distance_of(std::initializer_list<float> a, std::initializer_list<float> b) {
  return distance_of(at::tensor(at::ArrayRef<float>(a)), at::tensor(at::ArrayRef<float>(b)));
}

at::Tensor numbers(int64_t count, double phase) {
  return (at::arange(count, at::kDouble) * 0.7 + phase).sin() * 3.0;
}

TEST_CASE("a narrow dtype's distance is that of its values in double", "[inspect]") {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t count : {1, 7, 8, 9, 1000}) {
      INFO(c10::toString(dtype) << " " << count);
      const at::Tensor a = numbers(count, 0.0).to(dtype), b = numbers(count, 0.1).to(dtype);
      const Distance narrow = distance_of(a, b);
      const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
      CHECK(narrow.max_abs == (x - y).abs().max().item<double>());
      CHECK(narrow.relative ==
            ((x - y).abs() / at::maximum(x.abs(), y.abs())).max().item<double>());
      const Distance wide = distance_of(x, y);
      CHECK(wide.max_abs == narrow.max_abs);
      CHECK(wide.relative == narrow.relative);
      Change change, in_double;
      change.add(a, b);
      in_double.add(x, y);
      CHECK(change.moved == Approx(in_double.moved).epsilon(1e-13));
      CHECK(change.before == Approx(in_double.before).epsilon(1e-13));
      CHECK(change.dot == Approx(in_double.dot).epsilon(1e-13));
      CHECK(change.after == Approx(in_double.after).epsilon(1e-13));
    }
  }
}

TEST_CASE("dtypes may differ, and complex numbers are two", "[inspect]") {
  const at::Tensor a = numbers(20, 0.0).to(at::kFloat);
  const Distance rounded = distance_of(a, a.to(at::kBFloat16));
  CHECK(rounded.max_abs > 0.0);
  CHECK(rounded.relative < 0.01);
  const at::Tensor c = at::complex(numbers(9, 0.0), numbers(9, 1.0));
  CHECK(distance_of(c, c + 0.5).max_abs == Approx(0.5));
  CHECK(distance_of(at::tensor({1L, 5L}), at::tensor({1L, 2L})).max_abs == 3.0);
}

TEST_CASE("zeros, infinities and NaN are compared as values", "[inspect]") {
  CHECK(distance_of({0.0F, -0.0F}, {-0.0F, 0.0F}).relative == 0.0);
  CHECK(distance_of({0.0F, 2.0F}, {1.0F, 2.0F}).relative == 1.0);
  const Distance equal = distance_of({kNaN, kInfinity, 1.0F}, {kNaN, kInfinity, 3.0F});
  CHECK(equal.max_abs == 2.0);
  CHECK(equal.relative == Approx(2.0 / 3.0));
  CHECK(std::isinf(distance_of({kNaN, 1.0F}, {1.0F, 1.0F}).max_abs));
  CHECK(std::isinf(distance_of({kInfinity}, {-kInfinity}).max_abs));
  CHECK(std::isinf(distance_of({kInfinity, 1.0F}, {1.0F, 1.0F}).relative));
  CHECK(distance_of(at::empty({0}), at::empty({0})).max_abs == 0.0);
  // The smallest denormal float, and differences that overflow in float32.
  CHECK(distance_of({1e-45F}, {0.0F}).relative == 1.0);
  CHECK(distance_of({3e38F, -3e38F}, {-3e38F, 3e38F}).max_abs == Approx(6e38));
}

}  // namespace
}  // namespace am::values
