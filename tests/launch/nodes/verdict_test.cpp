// Tests the verdict that node 0 sends to the other launchers after a failure. The verdict contains
// all facts about the cause and about a rank that reported a hang. For every other rank, the
// verdict contains only the kind of exit and the last collective.
#include "am/launch/nodes/verdict.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "am/base/text.h"
#include "am/launch/cause/first_cause.h"
#include "launch/supervise/rank_exits.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

namespace {

constexpr int64_t kPerNode = 2;

// Returns the result that the launcher of node `node_rank` computes from these exits.
JobResult judged(std::vector<RankExit> ranks, int64_t node_rank = 0) {
  JobResult result;
  result.exit_status = 1;
  result.num_nodes = static_cast<int64_t>(ranks.size()) / kPerNode;
  result.node_rank = node_rank;
  for (RankExit& rank : ranks) rank.node = rank.rank / kPerNode;
  result.cause = find_cause(ranks, kPerNode);
  result.ranks = std::move(ranks);
  return result;
}

Verdict verdict_of(const JobResult& result) {
  return {result.cause,
          result.ranks,
          result.ended_by_user,
          result.silent_nodes,
          result.failed_launchers,
          {}};
}

// Returns the result that the launcher of `node` computes from its own ranks and the text of the
// verdict.
JobResult heard_by(int64_t node, const JobResult& all) {
  JobResult result = all;
  result.node_rank = node;
  result.cause.reset();
  result.silent_nodes.clear();
  result.failed_launchers.clear();
  std::erase_if(result.ranks, [&](const RankExit& rank) { return rank.node != node; });
  const auto verdict = verdict_from(to_text(verdict_of(all)), kPerNode);
  REQUIRE(verdict);
  add(*verdict, result);
  return result;
}

// Returns the description that the launcher of node `node` would print if it had the exits of all
// ranks.
std::string described_by(int64_t node, JobResult all) {
  all.node_rank = node;
  return describe(all);
}

}  // namespace

TEST_CASE("every launcher describes the cause as node 0 does") {
  std::vector<RankExit> ranks;
  SECTION("a rank that was killed") {
    ranks = {stopped(0, SIGTERM, 3.0), stopped(1, SIGTERM, 3.0), failed(2, 0, SIGKILL, 2.0),
             stopped(3, SIGKILL, 4.0), stopped(4, SIGTERM, 3.0), stopped(5, SIGTERM, 3.0)};
    ranks[2].tail = {"loading", "the last line"};
    ranks[2].log = "/run/logs/rank-2.log";
    ranks[2].last_word = LastWord{7, "at step 7, in no collective", 1.5};
    ranks[0] = failed(0, 0, 0, 1.0);  // succeeded, before the cause
    ranks[5] = failed(5, 0, 0, 9.0);  // succeeded, after the cause
  }
  SECTION("a rank that hangs, and those that waited for it") {
    ranks = {witness(0, {3}, 2.0),     witness(1, {3}, 2.1),     witness(2, {3}, 2.2),
             stopped(3, SIGKILL, 9.0), stopped(4, SIGTERM, 5.0), witness(5, {3}, 2.3)};
    ranks[3].tail = {"I sleep"};
  }
  SECTION("a rank that left early") {
    ranks = {witness(0, {}, 2.0),      stopped(1, SIGTERM, 3.0), stopped(2, SIGTERM, 3.0),
             stopped(3, SIGTERM, 3.0), stopped(4, SIGTERM, 3.0), stopped(5, SIGTERM, 3.0)};
    for (const size_t early : {1, 4}) {
      ranks[early] = RankExit{};
      ranks[early].rank = static_cast<int64_t>(early);
      ranks[early].time = 1.0;
    }
    ranks[0].error = RankError{.message = "Connection closed by peer", .kind = "runtime"};
    ranks[0].exit_status = 3;
  }
  const JobResult all = judged(ranks);
  REQUIRE(all.cause);
  for (const int64_t node : {1, 2}) {
    const JobResult heard = heard_by(node, all);
    CHECK(describe(heard) == described_by(node, all));
    CHECK(cause_json(heard) == cause_json(all));
    CHECK(heard.ranks.size() == all.ranks.size());
  }
}

TEST_CASE("nodes that are gone and launchers that gave up are told") {
  JobResult all = judged({stopped(0, SIGTERM, 1.0), stopped(1, SIGTERM, 1.0)});
  all.silent_nodes = {1};
  all.failed_launchers = {{2, RankError{.message = "no program", .hint = "install it"}}};
  const JobResult heard = heard_by(3, all);
  CHECK(heard.silent_nodes == std::vector<int64_t>{1});
  REQUIRE(heard.failed_launchers.size() == 1);
  CHECK(heard.failed_launchers[0].node == 2);
  CHECK(heard.failed_launchers[0].error.hint == "install it");
  Verdict cut = verdict_of(all);
  cut.unheard_nodes = {3};
  JobResult result;
  result.node_rank = 3;
  add(*verdict_from(to_text(cut), kPerNode), result);
  CHECK_FALSE(result.wait_cut);  // only this node was not heard, and it knows its own ranks
  cut.unheard_nodes = {3, 4};
  add(*verdict_from(to_text(cut), kPerNode), result);
  CHECK(result.wait_cut);
}

TEST_CASE("a verdict stays below 64 KiB, whatever the ranks say") {
  std::vector<RankExit> ranks;
  std::vector<int64_t> missing;
  for (int64_t rank = 0; rank < 16384; ++rank) {
    ranks.push_back(stopped(rank, SIGTERM, 3.0));
    if (rank % 3 == 1) missing.push_back(rank);
  }
  CHECK(to_text(verdict_of(judged(ranks))).size() < 1000);
  ranks[0] = witness(0, missing, 1.0);
  ranks[0].error->message = std::string(1 << 20, 'm');
  ranks[1].tail.assign(100, std::string(1000, 't'));
  for (size_t rank = 2; rank < ranks.size(); ++rank) {
    ranks[rank].error = RankError{.last_collective = cat("all_reduce dp #", rank)};
  }
  const JobResult all = judged(ranks);
  const std::string text = to_text(verdict_of(all));
  CHECK(text.size() <= (64 << 10));
  const auto verdict = verdict_from(text, kPerNode);
  REQUIRE(verdict);
  REQUIRE(verdict->cause);
  CHECK(verdict->cause->rank == 1);
  REQUIRE(verdict->cause->witness);
  CHECK(verdict->ranks[*verdict->cause->witness].error->missing == missing);
}

TEST_CASE("a witness without an error is none") {
  const JobResult all = judged(
      {witness(0, {3}, 2.0), witness(1, {3}, 2.1), witness(2, {3}, 2.2), stopped(3, SIGKILL, 9.0)});
  REQUIRE(all.cause);
  REQUIRE(all.cause->witness);
  Json json = Json::parse(to_text(verdict_of(all)));
  for (Json& rank : json["full"]) rank.erase("error");
  SECTION("the cause's own end is known") {
    const auto verdict = verdict_from(json.dump(), kPerNode);
    REQUIRE(verdict);
    REQUIRE(verdict->cause);
    CHECK(verdict->cause->rank == 3);
    CHECK_FALSE(verdict->cause->witness);
    JobResult heard;
    heard.exit_status = 1;
    add(*verdict, heard);
    CHECK_THAT(describe(heard), Catch::StartsWith("rank 3 on node 1 failed: signal SIGKILL"));
  }
  SECTION("nothing else is known of it") {
    json["cause"].erase("end");
    const auto verdict = verdict_from(json.dump(), kPerNode);
    REQUIRE(verdict);
    CHECK_FALSE(verdict->cause);
  }
}

TEST_CASE("what no launcher writes is no verdict") {
  for (const char* text : {"", "{}", "[1]", R"({"ended_by_user": 3})",
                           R"({"ended_by_user": false, "silent": [], "unheard": [],
                               "failed_launchers": [], "full": [], "ends": [3]})"}) {
    CHECK_FALSE(verdict_from(text, kPerNode));
  }
}

TEST_CASE("a verdict with more ranks or launchers than a launcher writes is none") {
  const JobResult all = judged({witness(0, {3}, 2.0), stopped(1, SIGTERM, 9.0),
                                stopped(2, SIGTERM, 9.0), stopped(3, SIGKILL, 9.0)});
  const Json good = Json::parse(to_text(verdict_of(all)));
  REQUIRE(verdict_from(good.dump(), kPerNode));
  REQUIRE(good["full"].size() == 2);
  const auto with = [&](const char* key, const Json& entry, size_t count) {
    Json json = good;
    json[key] = Json(count, entry);
    return verdict_from(json.dump(), kPerNode);
  };
  Json end = good["ends"][0];
  end["ranks"] = {{0, 1, 1 << 20}};
  CHECK(with("ends", end, 0));
  CHECK_FALSE(with("ends", end, 2));
  CHECK_FALSE(with("full", good["full"][0], 3));
  CHECK(with("failed_launchers", {{"node", 1}, {"error", good["full"][0]["error"]}}, 4));
  CHECK_FALSE(with("failed_launchers", {{"node", 1}, {"error", good["full"][0]["error"]}}, 5));
}
