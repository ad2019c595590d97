// Compares GPU kernels, run on the host, with formulas in float64 or with the host's own kernels.
// Inputs include random shapes, unaligned rows and tensors of more than 2^31 elements. Most tensors
// lie between inaccessible pages, and outputs begin as NaN.
#include <ATen/ATen.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "am/nn/experts/dispatch.h"
#include "am/nn/fused/dropout.h"
#include "cuda/host_kernels.h"
#include "cuda/operator_check.h"

namespace am {
namespace {

// Makes the operators in all tests of this program use the kernels.
const bool kUsed = [] {
  tensor::use_on_host(&test::host_kernels());
  return true;
}();

int64_t random_below(int64_t bound) { return at::randint(bound, {1}, at::kLong).item<int64_t>(); }

enum class Place {
  kAligned,  // to 16 bytes
  kOdd,      // to one element only
};

// Returns `bytes` bytes of zeros. Pages that are never written occupy no memory.
void* mapped(size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return memory;
}

// Returns a tensor between two inaccessible pages. The second page begins less than 16 bytes after
// the tensor's last byte.
at::Tensor guarded(at::IntArrayRef sizes, at::ScalarType dtype, Place place = Place::kAligned) {
  const auto page = static_cast<size_t>(::getpagesize());
  const size_t element = at::elementSize(dtype);
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * element;
  size_t room = (bytes + 15) / 16 * 16;
  if (place == Place::kOdd) room = bytes % 16 == 0 ? bytes + element : bytes;
  const size_t inner = (room + page - 1) / page * page, whole = inner + 2 * page;
  auto* memory = static_cast<char*>(mapped(whole));
  REQUIRE(::mprotect(memory, page, PROT_NONE) == 0);
  REQUIRE(::mprotect(memory + page + inner, page, PROT_NONE) == 0);
  return at::from_blob(
      memory + page + inner - room, sizes, [memory, whole](void*) { ::munmap(memory, whole); },
      at::TensorOptions(dtype));
}

at::Tensor guarded_nan(at::IntArrayRef sizes, at::ScalarType dtype, Place place = Place::kAligned) {
  return guarded(sizes, dtype, place).fill_(std::nan(""));
}

at::Tensor guarded_copy(const at::Tensor& x, at::ScalarType dtype, Place place = Place::kAligned) {
  return guarded(x.sizes(), dtype, place).copy_(x);
}

double largest_error(const at::Tensor& got, const at::Tensor& wanted) {
  const at::Tensor apart = (got.to(at::kDouble) - wanted).abs();
  const at::Tensor same = got.to(at::kDouble).eq(wanted);  // true for equal infinities
  const at::Tensor scale = wanted.abs().masked_fill(same, 0).max().clamp_min(1.0);
  return apart.masked_fill(same, 0.0).max().item<double>() / scale.item<double>();
}

double allowed(at::ScalarType dtype) { return dtype == at::kFloat ? 2e-6 : 4e-3; }

struct CrossEntropyCase {
  int64_t rows, width, first = 0;
  double scale = 3.0;
  Place place = Place::kAligned;
  bool masked = false;  // some logits are -inf, as in a vocabulary with padding
};

void check_cross_entropy(const CrossEntropyCase& one, at::ScalarType dtype) {
  CAPTURE(one.rows, one.width, one.first, one.place == Place::kOdd, dtype);
  at::Tensor given = at::randn({one.rows, one.width}, at::kDouble) * one.scale;
  if (one.masked) given.masked_fill_(at::rand_like(given).lt(0.3), -INFINITY);
  const at::Tensor logits = guarded_copy(given, dtype, one.place);
  const at::Tensor exact = logits.to(at::kDouble);
  const at::Tensor labels =
      guarded_copy(at::randint(one.first + 2 * one.width, {one.rows}, at::kLong), at::kLong);
  labels.masked_fill_(at::rand({one.rows}).lt(0.2), -100);
  const auto& kernels = test::host_kernels();
  const at::Tensor maximum = guarded_nan({one.rows}, at::kFloat),
                   sums = guarded_nan({one.rows}, at::kFloat),
                   of_label = guarded_nan({one.rows}, at::kFloat);
  REQUIRE(kernels.logit_sums(maximum, sums, of_label, logits, labels, one.first));
  const at::Tensor column = labels - one.first;
  const at::Tensor here = column.ge(0).logical_and(column.lt(one.width));
  const at::Tensor at_label = exact.gather(1, (column * here).unsqueeze(1)).squeeze(1);
  CHECK(largest_error(maximum, exact.amax(1)) == 0.0);
  const at::Tensor wanted = (exact - exact.amax(1, true)).exp().nan_to_num(0.0).sum(1);
  CHECK(largest_error(sums / wanted,
                      at::ones_like(wanted).masked_fill(wanted.eq(0), NAN).nan_to_num(1.0)) < 1e-5);
  CHECK(at::equal(of_label.to(at::kDouble), at::where(here, at_label, at::zeros_like(at_label))));

  const at::Tensor total = guarded_copy(exact.logsumexp(1), at::kFloat);
  const at::Tensor factor = guarded_copy(at::tensor(-0.37), at::kFloat);
  const at::Tensor hot = at::zeros_like(exact).scatter_(1, (column * here).unsqueeze(1),
                                                        here.to(at::kDouble).unsqueeze(1));
  const at::Tensor gradient = ((exact - total.to(at::kDouble).unsqueeze(1)).exp() - hot)
                                  .mul(factor.item<double>())
                                  .masked_fill(labels.eq(-100).unsqueeze(1), 0.0);
  const at::Tensor out = guarded_nan({one.rows, one.width}, dtype, one.place);
  REQUIRE(kernels.cross_entropy_gradient(out, logits, total, labels, one.first, -100, factor));
  CHECK(largest_error(out, gradient) < allowed(dtype));
  REQUIRE(kernels.cross_entropy_gradient(logits, logits, total, labels, one.first, -100, factor));
  CHECK(at::equal(logits, out));
}

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kBFloat16};

}  // namespace

TEST_CASE("cross-entropy kernels, on the host") {
  for (const at::ScalarType dtype : kDtypes) {
    for (const int64_t width : {1, 3, 8, 64, 511, 520, 4099, 8200}) {
      check_cross_entropy({.rows = 3, .width = width}, dtype);
    }
    check_cross_entropy({.rows = 1, .width = 4096, .first = 4096}, dtype);
    check_cross_entropy({.rows = 2, .width = 2048, .place = Place::kOdd}, dtype);
    check_cross_entropy({.rows = 4, .width = 1000, .masked = true}, dtype);
    check_cross_entropy({.rows = 4, .width = 1000, .scale = 200.0}, dtype);
    for (int round = 0; round < 10; ++round) {
      check_cross_entropy({.rows = 1 + random_below(5),
                           .width = 1 + random_below(3000),
                           .first = random_below(50),
                           .place = random_below(2) == 0 ? Place::kOdd : Place::kAligned},
                          dtype);
    }
  }
}

TEST_CASE("a row of -inf has the sum 0") {
  const at::Tensor logits = guarded_copy(at::full({2, 40}, -INFINITY), at::kFloat);
  const at::Tensor labels = guarded_copy(at::zeros({2}, at::kLong), at::kLong);
  const at::Tensor maximum = guarded_nan({2}, at::kFloat), sums = guarded_nan({2}, at::kFloat),
                   of_label = guarded_nan({2}, at::kFloat);
  REQUIRE(test::host_kernels().logit_sums(maximum, sums, of_label, logits, labels, 0));
  CHECK(at::isneginf(maximum).all().item<bool>());
  CHECK(sums.eq(0.0).all().item<bool>());
}

TEST_CASE("gated kernels, on the host") {
  using model::Activation;
  const auto& kernels = test::host_kernels();
  for (const at::ScalarType dtype : kDtypes) {
    for (const int64_t numel : {0, 1, 3, 7, 8, 9, 255, 2048, 2049, 5000}) {
      for (const Activation activation :
           {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf}) {
        CAPTURE(dtype, numel, activation);
        const at::Tensor gate = guarded_copy(at::randn({numel}) * 4.0, dtype),
                         up = guarded_copy(at::randn({numel}), dtype),
                         of_y = guarded_copy(at::randn({numel}), dtype);
        const at::Tensor y = guarded_nan({numel}, dtype), of_gate = guarded_nan({numel}, dtype),
                         of_up = guarded_nan({numel}, dtype);
        REQUIRE(kernels.gated(y, gate, up, activation));
        REQUIRE(kernels.gated_gradients(of_gate, of_up, of_y, gate, up, activation));
        if (numel == 0) continue;
        const at::Tensor g = gate.to(at::kDouble).requires_grad_(true),
                         u = up.to(at::kDouble).requires_grad_(true);
        const at::Tensor wanted =
            (activation == Activation::kSilu
                 ? at::silu(g)
                 : at::gelu(g, activation == Activation::kGeluTanh ? "tanh" : "none")) *
            u;
        wanted.backward(of_y.to(at::kDouble));
        // In bfloat16, the kernels round twice. In float32, GELU subtracts nearly equal numbers for
        // gates of large magnitude, which leaves few digits.
        const double most = dtype == at::kFloat ? 5e-6 : 1e-2;
        CHECK(largest_error(y, wanted.detach()) < most);
        CHECK(largest_error(of_gate, g.grad()) < most);
        CHECK(largest_error(of_up, u.grad()) < most);
      }
    }
    const at::Tensor x = guarded({24}, dtype, Place::kOdd);
    CHECK_FALSE(kernels.gated(at::empty_like(x), x, x, Activation::kSilu));
  }
}

namespace {

struct NormCase {
  int64_t rows, width;
  model::NormKind kind = model::NormKind::kRms;
  bool residual = true, of_weight = true, of_sum = true;
  Place place = Place::kAligned;
};

void check_norm(const NormCase& one, at::ScalarType dtype) {
  CAPTURE(one.rows, one.width, one.kind, one.residual, one.of_weight, one.of_sum, dtype,
          one.place == Place::kOdd);
  constexpr double kEps = 1e-3;
  const std::vector<int64_t> sizes = {one.rows, one.width};
  const auto given = [&](const at::Tensor& x) { return guarded_copy(x, dtype, one.place); };
  const auto unwritten = [&] { return guarded_nan(sizes, dtype, one.place); };
  const at::Tensor x = given(at::randn(sizes) * 2.0), weight = given(at::randn({one.width})),
                   y = unwritten(), inverse = guarded_nan({one.rows}, at::kFloat);
  at::Tensor residual, sum;
  if (one.residual) {
    residual = given(at::randn(sizes));
    sum = unwritten();
  }
  const auto& kernels = test::host_kernels();
  REQUIRE(kernels.rms_norm(y, inverse, sum, x, residual, weight, kEps, one.kind));
  const at::Tensor read = one.residual ? sum : x;
  if (one.residual) CHECK(at::equal(sum, x + residual));
  const at::Tensor exact = read.to(at::kDouble).requires_grad_(true),
                   exact_weight = weight.to(at::kDouble).requires_grad_(true);
  const at::Tensor factor = (exact.square().mean(-1, true) + kEps).rsqrt();
  const at::Tensor wanted =
      exact * factor *
      (one.kind == model::NormKind::kRmsPlusOne ? 1.0 + exact_weight : exact_weight);
  CHECK(largest_error(inverse, factor.detach().squeeze(-1)) < 1e-6);
  // In bfloat16, kRms rounds normalised values and their product with the weight.
  const double twice = one.kind == model::NormKind::kRms ? 2.0 : 1.0;
  CHECK(largest_error(y, wanted.detach()) < twice * allowed(dtype));

  const at::Tensor of_y = given(at::randn(sizes)), of_x = unwritten();
  at::Tensor of_sum, of_weight;
  if (one.of_sum) of_sum = given(at::randn(sizes));
  if (one.of_weight) of_weight = guarded_nan({one.width}, dtype, one.place);
  REQUIRE(
      kernels.rms_norm_gradients(of_x, of_weight, of_y, of_sum, read, inverse, weight, one.kind));
  wanted.backward(of_y.to(at::kDouble));
  at::Tensor gradient = exact.grad();
  if (one.of_sum) gradient = gradient + of_sum.to(at::kDouble);
  CHECK(largest_error(of_x, gradient) < allowed(dtype));
  if (!one.of_weight) return;
  // Each term of the sum over the rows is rounded, and so is the sum.
  const at::Tensor terms = of_y.to(at::kDouble) * (exact * factor).detach();
  const at::Tensor apart = (of_weight.to(at::kDouble) - exact_weight.grad()).abs();
  const double error = (apart / terms.abs().sum(0).clamp_min(1e-30)).max().item<double>();
  CHECK(error < twice * allowed(dtype));
}

}  // namespace

TEST_CASE("norm kernels, on the host") {
  using model::NormKind;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    // With these widths, one lane, some lanes of a warp, a whole warp or several warps compute a
    // row. The widest rows have more than two packs (16 bytes) per thread of the largest block.
    for (const int64_t width : {1, 7, 8, 16, 64, 128, 500, 512, 1000, 4096, 8200, 9001}) {
      check_norm({.rows = width > 600 ? 3 : 19, .width = width}, dtype);
    }
    for (const NormKind kind : {NormKind::kRms, NormKind::kRmsWide, NormKind::kRmsPlusOne}) {
      check_norm({.rows = 1, .width = 256, .kind = kind}, dtype);
      check_norm({.rows = 20, .width = 96, .kind = kind, .residual = false}, dtype);
      check_norm({.rows = 9, .width = 640, .kind = kind, .of_sum = false}, dtype);
      check_norm({.rows = 9, .width = 640, .kind = kind, .place = Place::kOdd}, dtype);
    }
    check_norm({.rows = 40, .width = 200, .of_weight = false}, dtype);
    // Here the partial sums of the weight's gradient cover more than 16 rows each.
    check_norm({.rows = 16400, .width = 8}, dtype);
    for (int round = 0; round < 10; ++round) {
      check_norm({.rows = 1 + random_below(60),
                  .width = 1 + random_below(600),
                  .kind = static_cast<NormKind>(random_below(3)),
                  .residual = random_below(2) == 0,
                  .of_weight = random_below(4) > 0,
                  .of_sum = random_below(2) == 0,
                  .place = random_below(2) == 0 ? Place::kOdd : Place::kAligned},
                 dtype);
    }
  }
}

TEST_CASE("dropout by kernels has the bits of the host's") {
  namespace fused = nn::fused;
  for (const at::ScalarType dtype : kDtypes) {
    for (int round = 0; round < 20; ++round) {
      const int64_t sequences = 1 + random_below(3), length = 1 + random_below(9),
                    width = 1 + random_below(700);
      fused::Dropout dropout = {.p = round == 0 ? 1.0 : 0.1 * static_cast<double>(round % 10),
                                .key = fused::dropout_key(1, 2, static_cast<uint64_t>(round)),
                                .rows = {.first_sequence = (int64_t{1} << 33) + random_below(5),
                                         .sequences = sequences,
                                         .length = length},
                                .first_column = random_below(2) == 0 ? 0 : random_below(100)};
      CAPTURE(dtype, sequences, length, width, dropout.p, dropout.first_column);
      const at::Tensor x = guarded_copy(at::randn({sequences * length, width}), dtype,
                                        random_below(2) == 0 ? Place::kOdd : Place::kAligned);
      const auto both = [&] {
        at::Tensor kept = x.clone();
        fused::drop(kept, dropout);
        return std::vector<at::Tensor>{fused::dropped(x, dropout), kept};
      };
      const std::vector<at::Tensor> by_kernels = both();
      tensor::use_on_host(nullptr);
      const std::vector<at::Tensor> wanted = both();
      tensor::use_on_host(&test::host_kernels());
      for (size_t i = 0; i < wanted.size(); ++i) CHECK(at::equal(by_kernels[i], wanted[i]));
    }
  }
}

TEST_CASE("sums of rows by kernels have the bits of the host's") {
  for (const at::ScalarType dtype : kDtypes) {
    for (int round = 0; round < 12; ++round) {
      const int64_t tokens = 1 + random_below(9), top_k = 1 + random_below(4),
                    width = round % 3 == 0 ? 8 * (1 + random_below(300)) : 1 + random_below(900);
      const Place place = random_below(2) == 0 ? Place::kOdd : Place::kAligned;
      CAPTURE(dtype, tokens, top_k, width, place == Place::kOdd);
      const at::Tensor rows = guarded_copy(at::randn({tokens * top_k, width}), dtype, place);
      const at::Tensor slot =
          guarded_copy(at::randperm(tokens * top_k, at::kLong).view({tokens, top_k}), at::kLong);
      at::Tensor added;
      if (random_below(2) == 0) added = guarded_copy(at::randn({tokens, width}), dtype, place);
      const at::Tensor sum = guarded_nan({tokens, width}, dtype, place);
      REQUIRE(test::host_kernels().sum_of_rows(sum, rows, slot, added));
      // The rows are passed as views of one tensor, with an empty view, and as separate tensors.
      const int64_t first = random_below(tokens * top_k + 1);
      const std::vector<at::Tensor> parts = {rows.narrow(0, 0, first), rows.narrow(0, first, 0),
                                             rows.narrow(0, first, tokens * top_k - first)};
      const at::Tensor of_parts = nn::sum_of_slots(parts, slot, added);
      const at::Tensor of_copies =
          nn::sum_of_slots(std::vector<at::Tensor>{parts[2].clone(), parts[0].clone()},
                           at::where(slot < first, slot + parts[2].size(0), slot - first), added);
      tensor::use_on_host(nullptr);
      const at::Tensor wanted = nn::sum_of_slots(parts, slot, added);
      tensor::use_on_host(&test::host_kernels());
      CHECK(at::equal(sum, wanted));
      CHECK(at::equal(of_parts, wanted));
      CHECK(at::equal(of_copies, wanted));
    }
  }
}

TEST_CASE("rotation kernels, on the host") {
  const auto& kernels = test::host_kernels();
  struct Case {
    int64_t batch, heads, length, width, turned;
    // of_batch: each sequence has its own table of angles. fused: x is a slice of a fused product.
    bool of_batch, fused;
  };
  for (const at::ScalarType dtype : kDtypes) {
    for (const Case& one :
         {Case{1, 1, 1, 16, 16, false, false}, Case{2, 3, 5, 64, 64, false, true},
          Case{2, 9, 4, 96, 32, true, false}, Case{1, 33, 2, 128, 128, true, true},
          Case{3, 2, 7, 80, 48, false, true}}) {
      CAPTURE(dtype, one.heads, one.width, one.turned, one.of_batch, one.fused);
      const int64_t more = one.fused ? 2 : 0;
      const at::Tensor whole =
          guarded_copy(at::randn({one.batch, one.length, one.heads + more, one.width}), dtype);
      const at::Tensor x = whole.narrow(2, more / 2, one.heads).transpose(1, 2);
      std::vector<int64_t> sizes = {one.batch, one.length, one.turned / 2};
      if (!one.of_batch) sizes.erase(sizes.begin());
      const at::Tensor angle = at::randn(sizes);
      const at::Tensor cos = guarded_copy(at::cat({angle.cos(), angle.cos()}, -1), dtype),
                       sin = guarded_copy(at::cat({angle.sin(), angle.sin()}, -1), dtype);
      const at::Tensor c = (one.of_batch ? cos.unsqueeze(1) : cos).to(at::kDouble),
                       s = (one.of_batch ? sin.unsqueeze(1) : sin).to(at::kDouble);
      for (const bool back : {false, true}) {
        const at::Tensor y = guarded_nan({one.batch, one.length, one.heads, one.width}, dtype);
        // The first two heads of x also serve as keys.
        const int64_t few = std::min<int64_t>(one.heads, 2);
        const at::Tensor keys = guarded_nan({one.batch, one.length, few, one.width}, dtype);
        REQUIRE(kernels.rotate(y, x, {}, {}, cos, sin, back));
        const at::Tensor alone = y.clone();
        y.fill_(NAN);
        REQUIRE(kernels.rotate(y, x, keys, x.narrow(1, 0, few), cos, sin, back));
        CHECK(at::equal(y, alone));
        CHECK(at::equal(keys, y.narrow(2, 0, few)));
        const at::Tensor exact = x.to(at::kDouble), turns = exact.narrow(-1, 0, one.turned);
        const auto halves = turns.chunk(2, -1);
        const at::Tensor turned =
            turns * c + at::cat({-halves[1], halves[0]}, -1) * (back ? -s : s);
        const at::Tensor wanted =
            at::cat({turned, exact.narrow(-1, one.turned, one.width - one.turned)}, -1);
        CHECK(largest_error(y, wanted.transpose(1, 2)) < allowed(dtype));
      }
    }
  }
}

// The tensors have more than 2^31 elements. The kernels write only the last elements.
TEST_CASE("indices of kernels beyond 2^31, on the host") {
  const auto& kernels = test::host_kernels();
  const auto sparse = [](at::IntArrayRef sizes) {
    const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * 2;
    void* memory = mapped(bytes);
    return at::from_blob(
        memory, sizes, [bytes](void* all) { ::munmap(all, bytes); },
        at::TensorOptions(at::kBFloat16));
  };
  const test::LastBlocks last(2);
  const int64_t numel = (int64_t{1} << 31) + 4099;
  SECTION("gated") {
    const at::Tensor gate = sparse({numel}), up = sparse({numel}), y = sparse({numel});
    const int64_t blocks = (numel + 2047) / 2048, begin = (blocks - 2) * 2048;
    const auto tail = [&](const at::Tensor& x) { return x.narrow(0, begin, numel - begin); };
    tail(gate).copy_(at::randn({numel - begin}));
    tail(up).copy_(at::randn({numel - begin}));
    REQUIRE(kernels.gated(y, gate, up, model::Activation::kSilu));
    CHECK(largest_error(tail(y), at::silu(tail(gate).to(at::kDouble)) * tail(up).to(at::kDouble)) <
          1e-2);
  }
  SECTION("cross-entropy") {
    const int64_t width = 131072, rows = numel / width + 2;
    const at::Tensor logits = sparse({rows, width});
    logits.narrow(0, rows - 2, 2).copy_(at::randn({2, width}));
    const at::Tensor exact = logits.narrow(0, rows - 2, 2).to(at::kDouble);
    const at::Tensor labels = at::full({rows}, width - 1, at::kLong);
    const at::Tensor maximum = at::empty({rows}), sums = at::empty({rows}),
                     of_label = at::empty({rows});
    REQUIRE(kernels.logit_sums(maximum, sums, of_label, logits, labels, 0));
    CHECK(largest_error(maximum.narrow(0, rows - 2, 2), exact.amax(1)) == 0.0);
    CHECK(largest_error(of_label.narrow(0, rows - 2, 2), exact.select(1, width - 1)) == 0.0);
    const at::Tensor total = at::zeros({rows});
    total.narrow(0, rows - 2, 2).copy_(exact.logsumexp(1));
    REQUIRE(kernels.cross_entropy_gradient(logits, logits, total, labels, 0, -100, at::ones({})));
    at::Tensor wanted = exact.softmax(1);
    wanted.select(1, width - 1).sub_(1.0);
    CHECK(largest_error(logits.narrow(0, rows - 2, 2), wanted) < allowed(at::kBFloat16));
  }
  SECTION("norm") {
    const int64_t width = 4096, rows = numel / width + 2;
    const at::Tensor x = sparse({rows, width}), y = sparse({rows, width}),
                     of_x = sparse({rows, width});
    const auto tail = [&](const at::Tensor& all) { return all.narrow(0, rows - 2, 2); };
    tail(x).copy_(at::randn({2, width}));
    const at::Tensor inverse = at::zeros({rows}), weight = at::ones({width}, at::kBFloat16);
    REQUIRE(kernels.rms_norm(y, inverse, {}, x, {}, weight, 1e-6, model::NormKind::kRms));
    const at::Tensor exact = tail(x).to(at::kDouble);
    const at::Tensor wanted = exact * exact.square().mean(-1, true).rsqrt();
    CHECK(largest_error(tail(y), wanted) < allowed(at::kBFloat16));
    // Both incoming gradients are x. The norm's gradient in this direction is 0, so of_x is the
    // incoming gradient of the sum alone.
    REQUIRE(kernels.rms_norm_gradients(of_x, at::empty_like(weight), x, x, x, inverse, weight,
                                       model::NormKind::kRms));
    CHECK(largest_error(tail(of_x), exact) < 2 * allowed(at::kBFloat16));
  }
  SECTION("rotation") {
    const int64_t heads = 64, width = 128, length = numel / (heads * width) + 2;
    const at::Tensor x = sparse({1, length, heads, width}), y = sparse({1, length, heads, width});
    const at::Tensor cos = sparse({length, width}), sin = sparse({length, width});
    const auto tail = [&](const at::Tensor& all) {
      return all.narrow(all.dim() == 4 ? 1 : 0, length - 2, 2);
    };
    for (const at::Tensor& each : {x, cos, sin}) tail(each).copy_(at::randn(tail(each).sizes()));
    REQUIRE(kernels.rotate(y, x.transpose(1, 2), {}, {}, cos, sin, false));
    const auto halves = tail(x).to(at::kDouble).chunk(2, -1);
    const auto of_table = [&](const at::Tensor& table) {
      return tail(table).to(at::kDouble).unsqueeze(1);
    };
    const at::Tensor wanted = tail(x).to(at::kDouble) * of_table(cos) +
                              at::cat({-halves[1], halves[0]}, -1) * of_table(sin);
    // Only the first half of each head is compared: the kernel reads all angles from the first half
    // of the tables, whose second half contains other random values here.
    CHECK(largest_error(tail(y).narrow(-1, 0, width / 2), wanted.narrow(-1, 0, width / 2)) <
          allowed(at::kBFloat16));
  }
}

}  // namespace am
