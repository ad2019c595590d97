#include "am/live/hang.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/launch/cause/rank_state.h"
#include "am/launch/supervise/wall_time.h"

namespace am::live {
namespace {

// Returns the report of a rank at step 7 that has issued `issued` collectives of the group "world".
// The rank has waited in the last collective for `seconds`, or does not wait if `seconds` is 0.
Json said(int64_t rank, uint64_t issued, double seconds) {
  launch::RankState state;
  state.rank = rank;
  state.step = 7;
  state.time = launch::wall_time();
  state.issued["world"] = issued;
  if (seconds > 0.0) {
    state.waiting_op = "all_reduce";
    state.waiting_group = "world";
    state.waiting_communicator = "world";
    state.waiting_sequence = issued;
    state.waiting_ranks = {0, 1, 2, 3};
    state.waiting_seconds = seconds;
  }
  return {{"rank", rank},
          {"state", state.to_json()},
          {"phase", "backward"},
          {"memory_bytes", 1 << 20},
          {"collectives", Json::array()}};
}

TEST_CASE("nobody is missing while all work, or wait for a moment") {
  Answers answers;
  for (int64_t rank = 0; rank < 4; ++rank) answers.said[rank] = said(rank, 5, 0.0);
  answers.said[2] = said(2, 6, 0.2);
  const auto result = describe_ranks(answers, term::Style::plain());
  CHECK(result.json["missing"].empty());
  CHECK(result.json["text"] == "");
  CHECK(result.json["ranks"].size() == 4);
  CHECK(result.json["ranks"][2]["collective"] == "all_reduce world #6");
  CHECK(result.json["ranks"][1]["phase"] == "backward");
}

TEST_CASE("a rank in an endless loop is the one that the others wait for") {
  Answers answers;
  for (int64_t rank = 0; rank < 4; ++rank) answers.said[rank] = said(rank, 6, 30.0 + double(rank));
  answers.said[1] = said(1, 5, 0.0);
  const auto result = describe_ranks(answers, term::Style::plain());
  CHECK(result.json["missing"] == Json::array({1}));
  const auto text = result.json["text"].get<std::string>();
  CHECK(text.find("rank 3 waits for rank 1\n") != std::string::npos);
  CHECK(text.find("in no collective") != std::string::npos);
}

TEST_CASE("a rank that does not come out of a collective is named, though it has waited longest") {
  Answers answers;
  for (int64_t rank = 0; rank < 4; ++rank) answers.said[rank] = said(rank, 6, 30.0);
  answers.said[1] = said(1, 5, 31.0);  // in collective 5, which all ranks have entered
  const auto result = describe_ranks(answers, term::Style::plain());
  CHECK(result.json["missing"] == Json::array({1}));
  CHECK(result.json["text"].get<std::string>().find("waits for rank 1\n") != std::string::npos);
}

TEST_CASE("a rank that is silent is named, with what it last did") {
  Answers answers;
  for (int64_t rank = 0; rank < 3; ++rank) answers.said[rank] = said(rank, 6, 5.0);
  answers.silent[3] = {"stopped", said(3, 5, 0.0)["state"]};
  const auto result = describe_ranks(answers, term::Style::plain());
  CHECK(result.json["missing"] == Json::array({3}));
  CHECK(result.json["ranks"][3]["state"] == "stopped");
  CHECK(result.json["ranks"][3]["step"] == 7);
  CHECK(result.json["text"].get<std::string>().find("rank 3: its process is stopped") !=
        std::string::npos);
  CHECK_THROWS_AS(describe_stack(3, answers), Error);
  CHECK_THROWS_WITH(describe_stack(3, answers), Catch::Contains("its process is stopped"));
}

TEST_CASE("a rank of another machine that never said anything is silent too") {
  Answers answers;
  answers.said[0] = said(0, 6, 5.0);
  answers.silent[1] = {};
  const auto result = describe_ranks(answers, term::Style::plain());
  CHECK(result.json["missing"][0] == 1);
  CHECK(result.json["ranks"][1]["state"] == "silent");
  CHECK(result.json["ranks"][1]["step"].is_null());
}

}  // namespace
}  // namespace am::live
