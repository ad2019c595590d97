#include "am/live/questions.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "am/base/text.h"
#include "am/launch/cause/rank_state.h"
#include "am/live/hang.h"
#include "am/runtime/store.h"

namespace am::live {
namespace {

using namespace std::chrono_literals;

// A store that counts the requests, and records the largest number of keys in one request.
class CountingStore : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>& keys) override {
    count(keys.size());
    return HashStore::check(keys);
  }
  std::vector<uint8_t> get(const std::string& key) override {
    count(1);
    return HashStore::get(key);
  }
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    count(keys.size());
    return HashStore::multiGet(keys);
  }
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    count(1);
    HashStore::set(key, value);
  }

  std::atomic<int64_t> requests = 0;
  std::atomic<size_t> most_keys = 0;

 private:
  void count(size_t keys) {
    ++requests;
    if (keys > most_keys) most_keys = keys;
  }
};

Json said(int64_t rank, double waiting) {
  launch::RankState state;
  state.rank = rank;
  state.step = 812;
  state.issued["world"] = waiting > 0.0 ? 6 : 5;
  if (waiting > 0.0) {
    state.waiting_op = "all_reduce";
    state.waiting_group = "world";
    state.waiting_communicator = "world";
    state.waiting_sequence = 6;
    state.waiting_ranks = {0, 77};
    state.waiting_seconds = waiting;
  }
  return {{"rank", rank},
          {"state", state.to_json()},
          {"phase", "backward"},
          {"memory_bytes", 1 << 20},
          {"frames", waiting > 0.0 ? "wait()\nmain" : "compute()\nmain"}};
}

TEST_CASE("ranks answer one after another question, and leave one answer each") {
  auto store = c10::make_intrusive<c10d::HashStore>();
  Questions questions(*store, 4);
  std::vector<std::thread> threads;
  for (int64_t rank = 1; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      answer_questions(*store, rank, {{"pid", rank}}, [rank](const Json& question) {
        return Json{{"rank", rank}, {"asked", question.at("what")}};
      });
    });
  }
  for (int i = 0; i < 3; ++i) {
    const Answers answers = questions.ask({{"what", "ranks"}}, {});
    REQUIRE(answers.said.size() == 3);
    CHECK(answers.silent.empty());
    CHECK(answers.said.at(2) == Json{{"rank", 2}, {"asked", "ranks"}});
  }
  const Answers one = questions.ask({{"what", "stack"}}, std::vector<int64_t>{3});
  REQUIRE(one.said.size() == 1);
  CHECK(one.said.at(3).at("asked") == "stack");
  const Answers two = questions.ask({{"what", "stack"}}, std::vector<int64_t>{0, 1, 3});
  CHECK(two.said.size() == 2);
  CHECK(two.silent.empty());
  questions.end();
  for (std::thread& thread : threads) thread.join();
  // The store keeps each rank's identity, the five questions, the end marker, and each rank's last
  // answer.
  CHECK(store->getNumKeys() == 3 + 6 + 3);
}

TEST_CASE("a rank that says nothing is silent, with what its watchdog published") {
  auto store = c10::make_intrusive<c10d::HashStore>();
  runtime::store_set(*store, launch::state_key(2), dump_json(said(2, 0.0).at("state"), -1));
  Questions questions(*store, 3);
  std::thread thread(
      [&] { answer_questions(*store, 1, {}, [](const Json&) { return said(1, 3.0); }); });
  const Answers answers = questions.ask({{"what", "ranks"}}, {});
  questions.end();
  thread.join();
  CHECK(answers.said.size() == 1);
  REQUIRE(answers.silent.size() == 1);
  CHECK(answers.silent.at(2).last_state->at("step") == 812);
}

TEST_CASE("16,384 ranks are asked by some 50 requests and fill two rows") {
  constexpr int64_t kRanks = 16384;
  constexpr int64_t kMissing = 77;
  auto store = c10::make_intrusive<CountingStore>();
  // All answers are in the store before rank 0 reads them, so only the requests of rank 0 are
  // counted.
  for (int64_t rank = 1; rank < kRanks; ++rank) {
    runtime::store_set(*store, cat("live/answer/1/", rank),
                       dump_json(said(rank, rank == kMissing ? 0.0 : 30.0), -1));
  }
  store->requests = 0;
  Questions questions(*store, kRanks);
  Answers answers = questions.ask({{"what", "ranks"}}, {});
  answers.said[0] = said(0, 33.0);
  CHECK(answers.said.size() == kRanks);
  CHECK(store->requests <= 50);
  CHECK(store->most_keys <= 1024);

  const auto ranks = describe_ranks(answers, term::Style::plain());
  CHECK(ranks.json["ranks"].size() == kRanks);
  CHECK(ranks.json["missing"] == Json::array({kMissing}));
  CHECK(ranks.text.find(
            "16383   812  backward  1.00 MiB  in all_reduce world #6 for 30.0 s to 33.0 s  "
            "0-76, 78-16383\n") != std::string::npos);
  CHECK(ranks.text.find("    1   812  backward  1.00 MiB  in no collective") != std::string::npos);
  CHECK(ranks.text.find("rank 0 waits for rank 77\n") != std::string::npos);

  const auto stacks = describe_stacks(answers);
  REQUIRE(stacks.json["stacks"].size() == 2);
  CHECK(stacks.json["stacks"][1]["ranks"] == Json::array({kMissing}));
  CHECK(stacks.text ==
        "ranks 0-76, 78-16383 (16383)\n#0  wait()\n#1  main\nrank 77\n"
        "#0  compute()\n#1  main\n");
}

TEST_CASE("equal collectives of many ranks are one table, with the oldest age") {
  Answers answers;
  for (int64_t rank = 0; rank < 40; ++rank) {
    answers.said[rank] = {{"collectives",
                           {{{"op", "all_gather"},
                             {"group", "dp"},
                             {"sequence", rank == 7 ? 4 : 5},
                             {"bytes", 1024},
                             {"seconds_ago", 1.0 + double(rank)},
                             {"waiting", rank != 7}}}}};
  }
  answers.silent[40] = {"stopped", {}};
  answers.silent[41] = {"stopped", {}};
  const auto result = describe_collectives(answers, term::Style::plain());
  CHECK(result.json["ranks"].size() == 40);
  CHECK(result.text.find("ranks 0-6, 8-39  ") == 0);
  CHECK(result.text.find("40.0 s ago") != std::string::npos);
  CHECK(result.text.find("\nrank 7  ") != std::string::npos);
  CHECK(result.text.find("ranks 40, 41: their processes are stopped\n") != std::string::npos);
}

TEST_CASE("many ranks are asked for few collectives") {
  CHECK(question_of("collectives", false, 16) == Json{{"what", "collectives"}});
  CHECK(question_of("collectives", false, 17).at("newest") == 4);
  CHECK(question_of("collectives", true, 17) == Json{{"what", "collectives"}});
  CHECK(question_of("stack", false, 17) == Json{{"what", "stack"}});
}

}  // namespace
}  // namespace am::live
