// Tests find_stall(), which determines from the ranks' published states which ranks block all
// others.
#include "am/runtime/stall.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"

namespace am::runtime {

namespace {

Collective collective(const std::string& group, std::vector<int64_t> ranks, uint64_t sequence) {
  auto id = std::make_shared<CommunicatorId>();
  id->name = group;
  id->ranks = std::move(ranks);
  return {"all_reduce", group, std::move(id), sequence};
}

PeerView at_work(int64_t rank, std::map<std::string, uint64_t> issued) {
  RankState state;
  state.rank = rank;
  state.step = 7;
  state.issued = std::move(issued);
  return {state, 0.0};
}

PeerView waiting(int64_t rank, const Collective& in, std::map<std::string, uint64_t> issued = {}) {
  PeerView peer = at_work(rank, std::move(issued));
  peer.state->issued[in.communicator->name] = in.sequence;
  peer.state->waiting_op = in.op;
  peer.state->waiting_group = in.group;
  peer.state->waiting_communicator = in.communicator->name;
  peer.state->waiting_sequence = in.sequence;
  peer.state->waiting_ranks = in.communicator->ranks;
  peer.state->waiting_seconds = 3.0;
  return peer;
}

using Ranks = std::vector<int64_t>;

}  // namespace

TEST_CASE("the rank that has not issued the collective is missing") {
  const Collective world = collective("world", {0, 1, 2}, 5);
  const Stall stall =
      find_stall(world, 0, {{1, at_work(1, {{"world", 4}})}, {2, waiting(2, world)}}, 1.0);
  CHECK(stall.missing == Ranks{1});
  CHECK(stall.text == "rank 1 did not arrive; last heard 0 s ago: at step 7, in no collective");
}

TEST_CASE("a rank that waits for another one is no culprit") {
  // Rank 0 waits for rank 1 in tp; rank 1 waits for rank 3 in dp; rank 3 does not wait.
  const Collective tp = collective("tp", {0, 1}, 9);
  const Collective dp = collective("dp", {1, 3}, 2);
  std::map<int64_t, PeerView> peers = {{1, waiting(1, dp)}, {3, at_work(3, {{"dp", 1}})}};
  CHECK(find_stall(tp, 0, peers, 1.0).missing == Ranks{3});
  CHECK(ranks_to_ask(tp, 0, peers) == Ranks{1, 3});
  peers.erase(3);
  const Stall unknown = find_stall(tp, 0, peers, 1.0);
  CHECK(unknown.missing == Ranks{3});
  CHECK(unknown.text == "rank 3 did not arrive: it never reported its state");
}

TEST_CASE("a rank that fell silent is missing, also when it had arrived") {
  const Collective world = collective("world", {0, 1, 2}, 5);
  PeerView stopped = waiting(1, world);
  stopped.silent_seconds = 4.0;
  std::map<int64_t, PeerView> peers = {{1, stopped}, {2, at_work(2, {{"world", 4}})}};
  const Stall stall = find_stall(world, 0, peers, 1.0);
  CHECK(stall.missing == Ranks{1});  // rank 1 is silent, whereas rank 2 may only be late
  CHECK(stall.text ==
        "rank 1 gives no sign of life: stopped, dead or unreachable; last heard 4.0 s ago: at step "
        "7, in all_reduce world #5 for 3.0 s");
  // If silence is ignored (limit 0), the late rank 2 is reported.
  CHECK(find_stall(world, 0, peers, 0.0).missing == Ranks{2});
}

TEST_CASE("a rank that failed is missing, and is quoted") {
  const Collective world = collective("world", {0, 1, 2}, 5);
  PeerView failed = at_work(2, {{"world", 5}});
  failed.state->failed = "no space left on device";
  const Stall stall = find_stall(world, 0, {{1, at_work(1, {{"world", 4}})}, {2, failed}}, 1.0);
  CHECK(stall.missing == Ranks{2});
  CHECK(stall.text == "rank 2 failed: no space left on device");
}

TEST_CASE("collectives in different orders are ranks that wait for each other") {
  const Collective a = collective("a", {0, 1}, 3);
  const Collective b = collective("b", {0, 1}, 3);
  const Stall stall = find_stall(a, 0, {{1, waiting(1, b, {{"a", 2}})}, {0, waiting(0, a)}}, 1.0);
  CHECK(stall.missing == Ranks{1});
  CHECK(stall.text.find("wait for each other") != std::string::npos);
  CHECK(
      stall.text.find("rank 1 did not arrive; last heard 0 s ago: at step 7, in all_reduce b #3") !=
      std::string::npos);
}

TEST_CASE("when all have arrived nobody is missing") {
  const Collective world = collective("world", {0, 1}, 5);
  const Stall stall = find_stall(world, 0, {{1, waiting(1, world)}}, 1.0);
  CHECK(stall.missing.empty());
  CHECK(stall.text.empty());
}

TEST_CASE("a rank's state survives the store") {
  const Collective dp = collective("dp", {1, 3}, 2);
  const RankState state = *waiting(1, dp, {{"tp", 40}}).state;
  const RankState read = RankState::from_json(state.to_json());
  CHECK(read.to_json() == state.to_json());
  CHECK(read.waiting_ranks == Ranks{1, 3});
  CHECK_THROWS_AS(RankState::from_json({{"rank", "one"}}), Error);
}

}  // namespace am::runtime
