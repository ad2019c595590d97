// Tests dispatch and deal, which sort the rows and the weights of tokens by expert, and combine,
// which sums each token's rows.
#include "am/nn/experts/dispatch.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/nn/experts/row_chunks.h"

namespace am::nn {
namespace {

constexpr int64_t kExperts = 5, kTokens = 11, kTaken = 3, kWidth = 19;

// Returns random expert ids, [kTokens, kTaken]. The ids of one token are distinct.
at::Tensor some_ids() { return std::get<1>(at::rand({kTokens, kExperts}).topk(kTaken, -1)); }

}  // namespace

TEST_CASE("rows are sorted by expert, and for one expert by token") {
  const at::Tensor ids = at::tensor({2, 0, 0, 2, 2, 3}, at::kLong).view({3, 2});
  const Placement placed = place_by_expert(ids, 4);
  CHECK(placed.counts == std::vector<int64_t>{2, 0, 3, 1});
  CHECK(at::equal(placed.token_R, at::tensor({0, 1, 0, 1, 2, 2}, at::kLong)));
  CHECK(at::equal(placed.slot_Nk, at::tensor({2, 0, 1, 3, 4, 5}, at::kLong).view({3, 2})));
}

TEST_CASE("padding of experts changes no result and no gradient") {
  at::manual_seed(3);
  const at::Tensor ids = some_ids();
  const at::Tensor pull = at::randn({kTokens, kWidth}, at::kDouble);
  const at::Tensor values = at::randn({kTokens, kWidth}, at::kDouble);
  const at::Tensor routing = at::rand({kTokens, kTaken}, at::kDouble);
  const auto run = [&](const Placement& placed) {
    const at::Tensor x = values.clone().set_requires_grad(true);
    const at::Tensor routing_weights = routing.clone().set_requires_grad(true);
    std::vector<at::Tensor> rows = dispatch(x, placed);
    const std::vector<at::Tensor> weights = deal(routing_weights, placed);
    for (size_t e = 0; e < rows.size(); ++e) {  // padding rows have weight 0, not output 0
      rows[e] = (rows[e] * static_cast<double>(e + 2) + 1.0) * weights[e].unsqueeze(1);
    }
    const at::Tensor out = combine(rows, placed);
    (out * pull).sum().backward();
    return std::vector<at::Tensor>{out.detach(), x.grad(), routing_weights.grad()};
  };
  const Placement plain = place_by_expert(ids, kExperts);
  const Placement padded = place_by_expert(ids, kExperts, /*multiple=*/4);
  CHECK(padded.routed == plain.counts);
  for (size_t e = 0; e < kExperts; ++e) {
    CHECK(padded.counts[e] % 4 == 0);
    CHECK(padded.counts[e] - plain.counts[e] < 4);
    CHECK(padded.counts[e] >= plain.counts[e]);
  }
  const auto wanted = run(plain), got = run(padded);
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(at::equal(got[i], wanted[i]));
}

TEST_CASE("rows beyond twice the even number are parts of their own") {
  using Parts = std::vector<std::vector<int64_t>>;
  CHECK(row_chunks({3, 0, 4}, 2) == Parts{{3, 0, 1}, {0, 0, 2}, {0, 0, 1}});
  CHECK(row_chunks({2, 2}, 2) == Parts{{2, 2}});
  CHECK(row_chunks({0, 0}, 3) == Parts{{0, 0}});
  CHECK(row_chunks({5, 1}, 0) == Parts{{5, 1}});
  CHECK(row_chunks({0, 9}, 4) == Parts{{0, 8}, {0, 1}});
}

TEST_CASE("the meta device deals rows evenly") {
  const auto meta = at::TensorOptions(at::kLong).device(at::kMeta);
  const Placement placed = place_by_expert(at::empty({5, 2}, meta), 4);
  CHECK(placed.counts == std::vector<int64_t>{3, 3, 2, 2});
  CHECK(placed.slot_Nk.sizes() == at::IntArrayRef({5, 2}));
  CHECK(placed.token_R.sizes() == at::IntArrayRef({10}));
}

TEST_CASE("what is dispatched is each token's, and its gradient is the sum of its rows'") {
  at::manual_seed(1);
  const at::ScalarType dtype = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
  const at::Tensor ids = some_ids();
  const Placement placed = place_by_expert(ids, kExperts);
  const at::Tensor x = at::randn({kTokens, kWidth}, dtype).set_requires_grad(true);
  const auto rows = dispatch(x, placed);
  REQUIRE(rows.size() == kExperts);
  at::Tensor pulled = at::zeros({kTokens, kWidth}, at::kDouble);
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (int64_t e = 0; e < kExperts; ++e) {
    const at::Tensor tokens = ids.eq(e).any(-1).nonzero().squeeze(1);
    CHECK(at::equal(rows[static_cast<size_t>(e)], x.index_select(0, tokens)));
    if (e == 1) continue;  // the loss does not read this expert's rows
    const at::Tensor pull = at::randn({tokens.size(0), kWidth}, dtype);
    sum = sum + (rows[static_cast<size_t>(e)] * pull).to(at::kDouble).sum();
    pulled.index_add_(0, tokens, pull.to(at::kDouble));
  }
  sum.backward();
  const double tolerance = dtype == at::kDouble ? 1e-14 : dtype == at::kFloat ? 1e-6 : 2e-2;
  CHECK(at::allclose(x.grad().to(at::kDouble), pulled, tolerance, tolerance));
}

TEST_CASE("weights go with their rows, and their gradients come back") {
  at::manual_seed(2);
  const at::Tensor ids = some_ids();
  const Placement placed = place_by_expert(ids, kExperts);
  const at::Tensor weights = at::randn({kTokens, kTaken}, at::kDouble).set_requires_grad(true);
  const auto dealt = deal(weights, placed);
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (int64_t e = 0; e < kExperts; ++e) {
    CHECK(at::equal(dealt[static_cast<size_t>(e)], weights.masked_select(ids.eq(e))));
    sum = sum + dealt[static_cast<size_t>(e)].sum() * static_cast<double>(e + 1);
  }
  sum.backward();
  CHECK(at::equal(weights.grad(), (ids + 1).to(at::kDouble)));
}

TEST_CASE("combining adds each token's rows and what comes on top") {
  at::manual_seed(3);
  const at::ScalarType dtype = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
  const bool adds = GENERATE(false, true);
  const at::Tensor ids = some_ids();
  const Placement placed = place_by_expert(ids, kExperts);
  std::vector<at::Tensor> rows;
  for (const int64_t count : placed.counts) {
    rows.push_back(at::randn({count, kWidth}, dtype).set_requires_grad(true));
  }
  const at::Tensor added =
      adds ? at::randn({kTokens, kWidth}, dtype).set_requires_grad(true) : at::Tensor();
  const at::Tensor out = combine(rows, placed, added);
  at::Tensor wanted = at::zeros({kTokens, kWidth}, at::kDouble);
  if (adds) wanted += added.detach().to(at::kDouble);
  const at::Tensor pull = at::randn({kTokens, kWidth}, dtype);
  out.backward(pull);
  for (int64_t e = 0; e < kExperts; ++e) {
    const at::Tensor tokens = ids.eq(e).any(-1).nonzero().squeeze(1);
    const at::Tensor& mine = rows[static_cast<size_t>(e)];
    wanted.index_add_(0, tokens, mine.detach().to(at::kDouble));
    CHECK(at::equal(mine.grad(), pull.index_select(0, tokens)));
  }
  const double tolerance = dtype == at::kDouble ? 1e-14 : dtype == at::kFloat ? 1e-6 : 2e-2;
  CHECK(at::allclose(out.detach().to(at::kDouble), wanted, tolerance, tolerance));
  if (adds) CHECK(at::equal(added.grad(), pull));
  const at::Tensor unread = combine(rows, placed, added, /*unread=*/true);
  CHECK(unread.sizes() == out.sizes());
  CHECK(unread.storage().nbytes() == static_cast<size_t>(out.element_size()));
}

}  // namespace am::nn
