// Tests SIMD vectors of every width for which kernels are compiled, including widths beyond this
// processor's registers.
#include "am/nn/fused/lanes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "am/nn/fused/transpose.h"
#include "am/values/narrow_lanes.h"

namespace am::nn::fused {
namespace {

template <int kWidth>
struct Bytes {
  static constexpr int kBytes = kWidth;
};

template <typename Scalar>
std::vector<Scalar> some(int64_t count) {
  std::vector<Scalar> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<Scalar>(0.37 * static_cast<double>(i) - 3.0));
  }
  return values;
}

template <typename Scalar, int kBytes>
void check_memory() {
  constexpr int64_t kCount = kLanes<Scalar, kBytes>;
  const std::vector<Scalar> from = some<Scalar>(4 * kCount);
  for (int64_t count = 1; count < 3 * kCount; ++count) {
    std::vector<Scalar> to(from.size(), Scalar(9));
    int64_t seen = 0;
    for_lanes<Scalar, kBytes>(count, [&](int64_t i, auto part) AM_LANES {
      CHECK(i == seen);
      seen += kCount;
      store(to.data() + i, part, load(from.data() + i, part));
    });
    for (int64_t i = 0; i < std::ssize(from); ++i) {
      CAPTURE(count, i);
      CHECK(to[i] == (i < count ? from[i] : Scalar(9)));
    }
  }
  const auto few = load(from.data(), First<kBytes>{kCount - 1});
  CHECK(few[kCount - 1] == 0);
  CHECK(outside_set(few, First<kBytes>{kCount - 1}, 7)[kCount - 1] == 7);
  CHECK(outside_set(few, All<kBytes>{}, 7)[kCount - 1] == 0);
}

template <typename Scalar, int kBytes>
void check_sums() {
  using Lanes = Vector<Scalar, kBytes>;
  const std::vector<Scalar> from = some<Scalar>(kCountOf<Lanes>);
  const Lanes lanes = load(from.data(), All<kBytes>{});
  double sum = 0.0;
  for (const Scalar each : from) sum += static_cast<double>(each);
  CHECK(sum_of(lanes) == sum);
  CHECK(largest_of(lanes) == static_cast<Wide<Scalar>>(from.back()));
  CHECK(smallest_of(lanes) == static_cast<Wide<Scalar>>(from.front()));
  const Lanes e = exponential(lanes);
  for (int i = 0; i < kCountOf<Lanes>; ++i) {
    const double exact = std::exp(static_cast<double>(lanes[i]));
    CHECK(std::abs(static_cast<double>(e[i]) - exact) < 2e-7 * exact);
  }
}

template <int kBytes>
void check_all() {
  check_memory<float, kBytes>();
  check_memory<double, kBytes>();
  check_memory<c10::BFloat16, kBytes>();
  check_sums<float, kBytes>();
  check_sums<double, kBytes>();
  check_sums<c10::BFloat16, kBytes>();
}

}  // namespace

TEST_CASE("vectors of any width load, store and add up", "[nn]") {
  check_all<16>();
  check_all<32>();
  check_all<64>();
}

TEMPLATE_TEST_CASE("bfloat16 rounds to even in vectors", "[nn]", Bytes<16>, Bytes<32>, Bytes<64>) {
  using Lanes = Vector<c10::BFloat16, TestType::kBytes>;
  for (const float x : {1.0F, 1.00390625F, 1.01171875F, -2.7F, 3e38F, 3.4e38F, 1e-40F, 0.0F,
                        std::numeric_limits<float>::infinity()}) {
    CAPTURE(x);
    const Lanes lanes = rounded<c10::BFloat16>(Lanes{} + x);
    for (int i = 0; i < kCountOf<Lanes>; ++i) CHECK(lanes[i] == static_cast<c10::BFloat16>(x));
  }
  CHECK(std::isnan(rounded<c10::BFloat16>(Lanes{} + std::nanf(""))[0]));
}

TEMPLATE_TEST_CASE("a block of vectors is turned", "[nn]", Bytes<16>, Bytes<32>, Bytes<64>) {
  using Lanes = Vector<float, TestType::kBytes>;
  constexpr int kCount = kCountOf<Lanes>;
  Lanes rows[kCount];
  for (int i = 0; i < kCount; ++i) {
    for (int j = 0; j < kCount; ++j) rows[i][j] = static_cast<float>(100 * i + j);
  }
  transpose_block(rows);
  for (int i = 0; i < kCount; ++i) {
    for (int j = 0; j < kCount; ++j) CHECK(rows[i][j] == static_cast<float>(100 * j + i));
  }
}

TEMPLATE_TEST_CASE("floats become doubles in two halves", "[nn]", Bytes<16>, Bytes<32>, Bytes<64>) {
  constexpr int kBytes = TestType::kBytes;
  const std::vector<float> from = some<float>(kLanes<float, kBytes>);
  const auto wide = values::widened<kBytes>(load(from.data(), All<kBytes>{}));
  constexpr int kHalf = kLanes<double, kBytes>;
  for (int i = 0; i < kHalf; ++i) {
    CHECK(wide.low[i] == static_cast<double>(from[i]));
    CHECK(wide.high[i] == static_cast<double>(from[kHalf + i]));
    CHECK(values::magnitude<kBytes>(wide.low)[i] == std::abs(wide.low[i]));
  }
}

}  // namespace am::nn::fused
