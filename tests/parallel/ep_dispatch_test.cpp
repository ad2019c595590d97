// The all-to-all dispatcher returns the outputs and gradients of one rank that holds all experts,
// bit for bit.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "am/parallel/ep/all_to_all_dispatcher.h"
#include "am/runtime/world.h"
#include "support/rank_check.h"

namespace am::parallel::ep {
namespace {

constexpr int64_t kEpExperts = 8, kEpTaken = 3, kEpWidth = 5;

struct DispatchCase {
  std::string name;
  std::vector<int64_t> tokens;  // number of tokens on each rank
  bool to_one = false;          // all tokens are routed to the same experts
  bool empty_rank = false;      // no token is routed to the last rank's experts
  at::ScalarType dtype = at::kFloat;
};

struct Moved {
  at::Tensor out_ND, of_x_ND, of_weights_Nk;
  std::vector<int64_t> rows;  // number of rows routed to each expert of this rank
};

at::Tensor ids_of(const DispatchCase& one, int64_t tokens, int64_t ranks) {
  if (one.to_one) return at::arange(2, 2 + kEpTaken).expand({tokens, kEpTaken}).contiguous();
  const int64_t experts = one.empty_rank ? kEpExperts - kEpExperts / ranks : kEpExperts;
  return std::get<1>(at::rand({tokens, experts}).topk(kEpTaken, -1));
}

// Dispatches rows to experts, applies a different function for each expert, and combines the
// outputs; then runs backward.
Moved move(const nn::TokenDispatcher& dispatcher, const at::Tensor& x_ND, const at::Tensor& ids_Nk,
           const at::Tensor& weights_Nk, bool unread = false) {
  Moved moved;
  const at::Tensor x = x_ND.detach().clone().set_requires_grad(true);
  const at::Tensor weights = weights_Nk.detach().clone().set_requires_grad(true);
  const nn::Placement placed = dispatcher.place(ids_Nk, kEpExperts);
  const nn::Dispatched in = dispatcher.dispatch(x, weights, placed);
  const mesh::Extent own = dispatcher.own(kEpExperts);
  std::vector<at::Tensor> out;
  for (size_t e = 0; e < in.rows.size(); ++e) {
    const double factor = std::sqrt(static_cast<double>(own.offset) + static_cast<double>(e) + 1);
    out.push_back(in.rows[e].square() * in.weights[e].unsqueeze(1).to(x.scalar_type()) * factor);
    moved.rows.push_back(in.rows[e].size(0));
  }
  const at::Tensor out_ND = dispatcher.combine(out, placed, x * 2, unread);
  out_ND.backward(x_ND.cos());
  moved.out_ND = out_ND.detach();
  moved.of_x_ND = x.grad();
  moved.of_weights_Nk = weights.grad();
  return moved;
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

}  // namespace

TEST_CASE("experts on several ranks see the rows that they would see on one") {
  const auto one = GENERATE(
      DispatchCase{"even", {6, 6}}, DispatchCase{"four ranks", {5, 9, 4, 7}},
      DispatchCase{.name = "bfloat16", .tokens = {6, 8}, .dtype = at::kBFloat16},
      DispatchCase{.name = "all tokens to one rank", .tokens = {6, 3, 4, 5}, .to_one = true},
      DispatchCase{.name = "an expert rank without tokens", .tokens = {6, 3}, .empty_rank = true},
      DispatchCase{.name = "a rank without tokens", .tokens = {6, 0, 3, 2}});
  INFO(one.name);
  at::manual_seed(3);
  std::vector<at::Tensor> x, ids, weights;
  for (const int64_t tokens : one.tokens) {
    x.push_back(at::randn({tokens, kEpWidth}).to(one.dtype));
    ids.push_back(ids_of(one, tokens, static_cast<int64_t>(one.tokens.size())));
    weights.push_back(at::rand({tokens, kEpTaken}));
  }
  const Moved wanted = move(nn::LocalDispatcher(), at::cat(x), at::cat(ids), at::cat(weights));
  std::vector<Moved> got(one.tokens.size()), unread = got;
  runtime::run_ranks(static_cast<int64_t>(one.tokens.size()), [&](const runtime::World& world) {
    const auto r = static_cast<size_t>(world.rank());
    const AllToAllDispatcher dispatcher(world.group());
    got[r] = move(dispatcher, x[r], ids[r], weights[r]);
    unread[r] = move(dispatcher, x[r], ids[r], weights[r], /*unread=*/true);
  });
  int64_t first = 0;
  std::vector<int64_t> rows;
  for (size_t r = 0; r < got.size(); ++r) {
    const int64_t count = one.tokens[r];
    CHECK(same(got[r].out_ND, wanted.out_ND.narrow(0, first, count)));
    CHECK(same(got[r].of_x_ND, wanted.of_x_ND.narrow(0, first, count)));
    CHECK(same(got[r].of_weights_Nk, wanted.of_weights_Nk.narrow(0, first, count)));
    CHECK(unread[r].out_ND.sizes() == got[r].out_ND.sizes());
    CHECK(same(unread[r].of_x_ND, got[r].of_x_ND));
    rows.insert(rows.end(), got[r].rows.begin(), got[r].rows.end());
    first += count;
  }
  CHECK(rows == wanted.rows);
}

}  // namespace am::parallel::ep
