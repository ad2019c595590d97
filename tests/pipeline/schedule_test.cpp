#include "am/pipeline/schedule.h"

#include <algorithm>
#include <limits>
#include <random>

#include "am/base/error.h"
#include "am/pipeline/communication.h"
#include "am/pipeline/timeline.h"
#include "am/pipeline/validate.h"
#include "support/pytorch_orders.h"

using am::pipeline::make_schedule;
using am::pipeline::PipelineShape;
using am::pipeline::Schedule;
using am::pipeline::violated_constraint;
using am::test::about;
using am::test::pytorch_orders;
using am::test::row;

TEST_CASE("orders are PyTorch's, bubbles included", "[schedule]") {
  const std::string name =
      GENERATE(as<std::string>(), "gpipe", "1f1b", "looped_bfs", "interleaved_1f1b",
               "interleaved_zero_bubble", "zbv_zero_bubble", "dual_pipe_v");
  // PyTorch's orders of gpipe and 1f1b have no bubbles.
  const bool bubbles = name != "gpipe" && name != "1f1b";
  for (const auto& wanted : pytorch_orders(name)) {
    if (!wanted.form.empty()) continue;
    INFO(about(wanted.shape));
    const Schedule schedule = make_schedule(wanted.shape);
    REQUIRE(schedule.ranks.size() == wanted.rows.size());
    for (size_t rank = 0; rank < wanted.rows.size(); ++rank) {
      CHECK(row(schedule.ranks[rank], bubbles) == wanted.rows[rank]);
    }
    CHECK(am::pipeline::validate(schedule).empty());
  }
}

TEST_CASE("with communication they are what PyTorch's runtime executes", "[schedule]") {
  const std::string name =
      GENERATE(as<std::string>(), "gpipe", "1f1b", "looped_bfs", "interleaved_1f1b",
               "interleaved_zero_bubble", "zbv_zero_bubble", "dual_pipe_v");
  int compared = 0;
  for (const auto& wanted : pytorch_orders(name)) {
    if (wanted.form != "lowered") continue;
    INFO(about(wanted.shape));
    Schedule schedule = make_schedule(wanted.shape);
    // Bubbles affect where communication is inserted. PyTorch's lists have bubbles, except those of
    // gpipe and 1f1b, so bubbles are removed from these two here.
    for (auto& list : schedule.ranks) {
      std::erase_if(list, [&](const auto& slot) {
        return slot.is_bubble() && (name == "gpipe" || name == "1f1b");
      });
    }
    const auto lists = am::pipeline::with_communication(schedule);
    REQUIRE(lists.size() == wanted.rows.size());
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      CHECK(row(lists[rank]) == wanted.rows[rank]);
    }
    ++compared;
  }
  CHECK(compared >= 5);
}

TEST_CASE("the sizes that PyTorch refuses are refused", "[schedule]") {
  int refused = 0;
  for (const auto name : am::pipeline::schedule_names()) {
    for (const auto& wanted : pytorch_orders(name)) {
      INFO(about(wanted.shape));
      // With one stage per rank, interleaved_zero_bubble is ZB-H1, which PyTorch lacks.
      const bool own = name == "interleaved_zero_bubble" && wanted.shape.virtual_stages == 1;
      const bool legal = wanted.form != "refused" || own;
      CHECK(violated_constraint(wanted.shape).has_value() != legal);
      refused += legal ? 0 : 1;
      if (!legal) CHECK_THROWS_AS(make_schedule(wanted.shape), am::Error);
    }
  }
  CHECK(refused > 10);
}

TEST_CASE("the nearest legal sizes are legal", "[schedule]") {
  std::mt19937 random(7);
  int violated = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto names = am::pipeline::schedule_names();
    const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    PipelineShape shape{.schedule = std::string(names[random() % names.size()]),
                        .pp = 2 + below(40),
                        .virtual_stages = 1 + below(4),
                        .microbatches = 1 + below(100)};
    const auto constraint = violated_constraint(shape);
    if (!constraint.has_value()) continue;
    INFO(about(shape) << ": " << constraint->message);
    ++violated;
    REQUIRE_FALSE(constraint->nearest.empty());
    for (const int64_t value : constraint->nearest) {
      PipelineShape other = shape;
      (constraint->key == "microbatches" ? other.microbatches : other.virtual_stages) = value;
      const auto next = violated_constraint(other);
      CHECK((!next.has_value() || next->key != constraint->key));
    }
    if (!constraint->instead.empty()) {
      PipelineShape other = shape;
      other.schedule = constraint->instead;
      const auto next = violated_constraint(other);
      CHECK((!next.has_value() || next->key != constraint->key));
    }
  }
  CHECK(violated > 500);
}

TEST_CASE("absurd sizes are refused without listing anything", "[schedule]") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const auto name : am::pipeline::schedule_names()) {
    const int64_t stages = name == "gpipe" || name == "1f1b" ? 1 : 2;
    for (const int64_t huge : {int64_t{1} << 21, int64_t{1000000000}, kMost}) {
      INFO(name << " " << huge);
      const std::string schedule(name);
      CHECK(violated_constraint({schedule, 4, stages, huge})->key == "microbatches");
      CHECK(violated_constraint({schedule, huge, stages, 8})->key == "microbatches");
      CHECK(violated_constraint({schedule, huge, stages, huge}).has_value());
      CHECK(violated_constraint({schedule, huge, huge, huge}).has_value());
      CHECK_THROWS_AS(make_schedule({schedule, 4, stages, huge}), am::Error);
    }
    CHECK(violated_constraint({std::string(name), 4, stages, 0}).has_value());
    CHECK(violated_constraint({std::string(name), 0, stages, 8}).has_value());
    CHECK(violated_constraint({std::string(name), 4, -1, 8}).has_value());
  }
  CHECK(violated_constraint({"dfs", 4, 1, 8})->key == "schedule");
}

TEST_CASE("any legal sizes give a schedule that runs to its end", "[schedule]") {
  std::mt19937 random(11);
  int made = 0;
  for (int i = 0; i < 1500; ++i) {
    const auto names = am::pipeline::schedule_names();
    PipelineShape shape{.schedule = std::string(names[random() % names.size()]),
                        .pp = 1 + static_cast<int64_t>(random() % 12),
                        .virtual_stages = 1 + static_cast<int64_t>(random() % 4),
                        .microbatches = 1 + static_cast<int64_t>(random() % 40)};
    if (violated_constraint(shape)) continue;
    INFO(about(shape));
    ++made;
    const Schedule schedule = make_schedule(shape);
    CHECK(am::pipeline::validate(schedule).empty());
    // Every message is sent once and received once, in the same order on both sides.
    const auto lists = am::pipeline::with_communication(schedule);
    std::vector<std::string> sent(static_cast<size_t>(shape.pp * shape.pp));
    std::vector<std::string> received(sent.size());
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      for (const auto& slot : lists[rank]) {
        for (const auto& action : slot.actions()) {
          using am::pipeline::Kind;
          const bool sends =
              action.kind == Kind::kSendForward || action.kind == Kind::kSendBackward;
          const bool receives =
              action.kind == Kind::kRecvForward || action.kind == Kind::kRecvBackward;
          if (!sends && !receives) continue;
          const bool forward =
              action.kind == Kind::kSendForward || action.kind == Kind::kRecvForward;
          const int64_t from = sends ? action.stage : action.stage + (forward ? -1 : 1);
          const int64_t to = sends ? action.stage + (forward ? 1 : -1) : action.stage;
          const auto owner = [&](int64_t stage) {
            return static_cast<size_t>(schedule.owners[static_cast<size_t>(stage)]);
          };
          CHECK(owner(sends ? from : to) == rank);
          const size_t channel = owner(from) * lists.size() + owner(to);
          (sends ? sent : received)[channel] +=
              am::cat(from, forward ? "F" : "B", action.micro_batch, " ");
        }
      }
    }
    CHECK(sent == received);
  }
  CHECK(made > 300);
}

// Slots with the same index in the ranks' lists run at the same time. The inputs of a pass are
// computed in slots with lower indices.
TEST_CASE("gpipe and 1f1b wait only as long as they must", "[schedule]") {
  const Schedule gpipe = make_schedule({"gpipe", 3, 1, 2});
  CHECK(row(gpipe.ranks[0]) == "0F0,0F1,,,,,0B0,0B1");
  CHECK(row(gpipe.ranks[1]) == ",1F0,1F1,,,1B0,1B1");
  CHECK(row(gpipe.ranks[2]) == ",,2F0,2F1,2B0,2B1");
  const Schedule one = make_schedule({"1f1b", 2, 1, 3});
  CHECK(row(one.ranks[0]) == "0F0,0F1,,0B0,0F2,0B1,,0B2");
  CHECK(row(one.ranks[1]) == ",1F0,1B0,1F1,1B1,1F2,1B2");
}

TEST_CASE("an order in which ranks wait for each other is named", "[schedule]") {
  Schedule schedule = make_schedule({"1f1b", 2, 1, 2});
  std::erase_if(schedule.ranks[0], [](const auto& slot) { return slot.is_bubble(); });
  std::rotate(schedule.ranks[0].begin(), schedule.ranks[0].begin() + 2, schedule.ranks[0].end());
  REQUIRE(row(schedule.ranks[0]) == "0B0,0B1,0F0,0F1");
  try {
    am::pipeline::with_communication(schedule);
    FAIL("it does not progress");
  } catch (const am::Error& error) {
    CHECK(error.kind() == am::ErrorKind::kPlan);
    CHECK(std::string(error.what()).find("rank 0 before 0B0, rank 1 before 1F0") !=
          std::string::npos);
  }
}

TEST_CASE("stages are gathered ahead and freed when others are nearer", "[schedule]") {
  std::vector<am::pipeline::Slot> list;
  for (const char* text : {"0F0", "2F0", "", "4F0", "6F0", "6B0", "0B0"}) {
    list.push_back(*am::pipeline::parse_slot(text));
  }
  CHECK(row(am::pipeline::add_unshard_reshard(list, 2)) ==
        "0UNSHARD,2UNSHARD,0F0,0RESHARD,4UNSHARD,2F0,2RESHARD,6UNSHARD,4F0,4RESHARD,0UNSHARD,"
        "6F0,6B0,6RESHARD,0B0,0RESHARD");
  CHECK(row(am::pipeline::add_unshard_reshard(list, 1)) ==
        "0UNSHARD,0F0,0RESHARD,2UNSHARD,2F0,2RESHARD,4UNSHARD,4F0,4RESHARD,6UNSHARD,6F0,6B0,"
        "6RESHARD,0UNSHARD,0B0,0RESHARD");
}
