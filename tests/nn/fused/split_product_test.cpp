// Tests float32 matrix products that the matrix unit (AMX) computes from bfloat16 parts. On a
// processor without a matrix unit, only the products that replace them are tested.
#include "am/nn/fused/split_product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "am/nn/fused/linear.h"
#include "am/nn/fused/product.h"
#include "support/live_bytes.h"
#include "support/operators.h"

namespace am {
namespace {

namespace fused = nn::fused;
using test::check_close;
using test::Tensors;

// Returns the largest error of an element of c, relative to the sum of the absolute values of the
// products that are added to the element.
double error_of(const at::Tensor& c_MN, const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const at::Tensor a = a_MK.to(at::kDouble), b = b_KN.to(at::kDouble);
  const at::Tensor sizes = a.abs().mm(b.abs()).clamp_min(1e-300);
  return ((c_MN.to(at::kDouble) - a.mm(b)).abs() / sizes).max().item<double>();
}

void check_accurate(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const at::Tensor c_MN = fused::split_product(a_MK, b_KN);
  REQUIRE(c_MN.defined());
  REQUIRE(c_MN.is_contiguous());
  REQUIRE(c_MN.sizes() == at::IntArrayRef({a_MK.size(0), b_KN.size(1)}));
  const double one_rounding = std::ldexp(1.0, -24);
  const double of_mm = std::max(one_rounding, error_of(a_MK.mm(b_KN), a_MK, b_KN));
  CHECK(error_of(c_MN, a_MK, b_KN) <= 2.0 * of_mm);
}

// Returns the matrix in four memory layouts: dense, transposed, with gaps between rows, and with
// gaps between columns.
Tensors stored(const at::Tensor& matrix) {
  const auto with_gaps = [](const at::Tensor& from) {
    at::Tensor wide = at::full({from.size(0), from.size(1) + 3}, 1e30F);
    wide.narrow(1, 2, from.size(1)).copy_(from);
    return wide.narrow(1, 2, from.size(1));
  };
  return {matrix, matrix.t().contiguous().t(), with_gaps(matrix), with_gaps(matrix.t()).t()};
}

struct Sizes {
  int64_t rows, columns, depth;
};

// Sizes at and next to the limits of split_product's blocks: tiles of 16 rows, panels of 32 rows,
// sums over a depth of 256, and blocks of 704 columns.
const std::vector<Sizes> kSizes = {{1, 1, 1},      {1, 40, 100},    {33, 17, 31},   {16, 32, 32},
                                   {32, 16, 33},   {100, 130, 257}, {65, 48, 1000}, {63, 720, 300},
                                   {31, 1450, 64}, {130, 33, 512},  {97, 64, 287},  {64, 705, 256}};

// Returns random values whose magnitudes spread over `powers` powers of two.
at::Tensor spread(at::IntArrayRef sizes, double powers) {
  return at::randn(sizes) * at::exp2(at::rand(sizes).sub(0.5).mul(powers).round());
}

// Returns whether the processor has a matrix unit (AMX), and warns if it has none.
bool has_unit() {
  if (!fused::splits_products()) WARN("no matrix unit here");
  return fused::splits_products();
}

}  // namespace

TEST_CASE("a split product is as exact as the product", "[split]") {
  if (!has_unit()) return;
  at::manual_seed(31);
  for (const auto& [rows, columns, depth] : kSizes) {
    INFO(rows << " x " << depth << " times " << depth << " x " << columns);
    const at::Tensor a = at::randn({rows, depth}), b = at::randn({depth, columns});
    for (const at::Tensor& left : stored(a)) {
      for (const at::Tensor& right : stored(b)) check_accurate(left, right);
    }
  }
}

TEST_CASE("however far the numbers are apart", "[split]") {
  if (!has_unit()) return;
  at::manual_seed(32);
  for (const double powers : {8.0, 40.0, 80.0}) {
    INFO("2^" << powers);
    check_accurate(spread({70, 300}, powers), spread({300, 90}, powers));
  }
  // Each product is added twice, with opposite signs, so only the differences in the last bits
  // remain.
  const at::Tensor a = at::randn({50, 400}), b = at::randn({400, 60});
  const at::Tensor again = -a * (1.0 + at::randint(-8, 9, a.sizes()) * std::ldexp(1.0, -23));
  check_accurate(at::cat({a, again}, 1), at::cat({b, b}, 0));
  check_accurate(at::rand({50, 4096}), at::rand({4096, 60}));
  // The values use all 24 bits of float32's significand, and the sums are exact.
  const at::Tensor ones = at::eye(128),
                   whole = at::randint(1 << 23, 1 << 24, {128, 100}, at::kFloat);
  CHECK(at::equal(fused::split_product(ones, whole), whole));
  CHECK(at::equal(fused::split_product(whole.t(), ones), whole.t()));
}

TEST_CASE("numbers below the smallest normal one are lost beside ordinary ones alone", "[split]") {
  if (!has_unit()) return;
  at::manual_seed(33);
  const at::Tensor tiny = at::randn({64, 200}) * 1e-39F, b = at::randn({200, 80});
  const at::Tensor mixed = at::where(at::rand({64, 200}).lt(0.5), tiny, at::randn({64, 200}));
  check_accurate(mixed, b);
  CHECK_FALSE(fused::split_product(tiny, b).defined());
  CHECK_FALSE(fused::split_product(b.t(), tiny.t()).defined());
  CHECK_FALSE(fused::split_product(b.t() * 1e-20F, tiny.t() * 1e20F).defined());
  const at::Tensor none = fused::split_product(at::zeros({64, 200}), b);
  REQUIRE(none.defined());
  CHECK(none.eq(0).all().item<bool>());
}

TEST_CASE("what is not finite, or may become so, is left to the product", "[split]") {
  if (!has_unit()) return;
  at::manual_seed(34);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const at::Tensor a = at::randn({150, 301}), b = at::randn({301, 400});
  for (const float value : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::max(), 1e30F}) {
    for (const auto& [row, column] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 0}, {149, 300}, {149, 0}, {0, 300}, {40, 280}, {77, 31}}) {
      INFO(value << " at " << row << ", " << column);
      at::Tensor left = a.clone();
      left.select(0, row).select(0, column).fill_(value);
      for (const at::Tensor& memory : stored(left)) {
        // 1e30 times an element of `right` may be infinite.
        const at::Tensor right = value == 1e30F ? b * 1e9F : b;
        CHECK_FALSE(fused::split_product(memory, right).defined());
        CHECK_FALSE(fused::split_product(right.t(), memory.t()).defined());
        CHECK(at::allclose(fused::product(memory, right), memory.mm(right), 0.0, 0.0,
                           /*equal_nan=*/true));
      }
    }
  }
}

TEST_CASE("a row has the same bits among others, on any number of threads", "[split]") {
  if (!has_unit()) return;
  at::manual_seed(35);
  const at::Tensor a = at::randn({300, 700}), b = at::randn({700, 800});
  for (const at::Tensor& left : stored(a)) {
    for (const at::Tensor& right : stored(b)) {
      const at::Tensor whole = fused::split_product(left, right);
      for (const auto& [first, count] :
           std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {5, 17}, {64, 100}, {299, 1}}) {
        CHECK(at::equal(fused::split_product(left.narrow(0, first, count), right),
                        whole.narrow(0, first, count)));
        CHECK(at::equal(fused::split_product(left, right.narrow(1, first, count)),
                        whole.narrow(1, first, count)));
      }
      const int threads = at::get_num_threads();
      at::set_num_threads(3);
      const at::Tensor on_three = fused::split_product(left, right);
      const at::Tensor turned = fused::split_product(left.narrow(0, 0, 290), right);
      at::set_num_threads(threads);
      CHECK(at::equal(on_three, whole));
      CHECK(at::equal(turned, whole.narrow(0, 0, 290)));
    }
  }
}

TEST_CASE("large products are split, and others are not", "[split]") {
  at::manual_seed(36);
  const at::Tensor a = at::randn({256, 512}), b = at::randn({300, 512}).t();
  CHECK(fused::multiplies_split(256, 300, 512) == fused::splits_products());
  if (fused::splits_products()) {
    CHECK(at::equal(fused::product(a, b), fused::split_product(a, b)));
  }
  for (const auto& [rows, columns, depth] : std::vector<Sizes>{
           {1, 4096, 4096}, {4096, 8, 4096}, {4096, 4096, 16}, {100, 100, 100}, {0, 512, 512}}) {
    CHECK_FALSE(fused::multiplies_split(rows, columns, depth));
  }
  check_close(fused::product(a, b), a.mm(b), 1e-6);
  // This matrix has gaps between rows and between columns, which split_product does not support.
  const at::Tensor every_second = at::randn({512, 1024}).slice(1, 0, 1024, 2).slice(0, 0, 512, 2);
  check_close(fused::product(every_second, b), every_second.mm(b), 1e-6);
  CHECK_FALSE(fused::split_product(every_second, b).defined());
}

TEST_CASE("a split product takes no tensor but its result", "[split]") {
  if (!has_unit()) return;
  const at::Tensor a = at::randn({256, 512}), b = at::randn({300, 512}).t();
  const test::LiveBytes live;
  const at::Tensor c_MN = fused::product(a, b);
  CHECK(live.count() == 256 * 300 * 4);
  CHECK(live.most() == live.count());
}

TEST_CASE("a large linear layer and its gradients", "[split]") {
  at::manual_seed(37);
  for (const bool in_out : {false, true}) {
    const Tensors inputs = {at::randn({2, 130, 384}),
                            in_out ? at::randn({384, 260}) : at::randn({260, 384}),
                            at::randn({260})};
    const at::Tensor entering = at::randn({2, 130, 260});
    const test::Outcome ours = test::run(
        [&](const Tensors& in) { return fused::linear(in[0], in[1], in[2], {.in_out = in_out}); },
        inputs, entering);
    const test::Outcome composite = test::run(
        [&](const Tensors& in) { return at::linear(in[0], in_out ? in[1].t() : in[1], in[2]); },
        inputs, entering);
    check_close(ours.value, composite.value, 1e-6);
    for (size_t i = 0; i < inputs.size(); ++i) {
      INFO("gradient of input " << i);
      check_close(ours.gradients[i], composite.gradients[i], 1e-6);
    }
  }
}

}  // namespace am
