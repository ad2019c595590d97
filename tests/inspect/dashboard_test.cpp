#include "am/inspect/dashboard.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

#include "am/base/text.h"

namespace am::inspect {
namespace {

DashboardData data_of(int64_t ranks, int64_t silent, int64_t slow) {
  DashboardData data;
  data.title = "llama [dp_shard 2]";
  data.status = {
      {"step", 812},          {"max_steps", 20000},
      {"phase", "backward"},  {"loss", 2.31452},
      {"step_seconds", 1.25}, {"tokens_per_second", 12100.0},
      {"goodput", nullptr},   {"seconds_left", 3661},
      {"paused", nullptr},    {"expert_load", {{"max_over_mean", 1.5}, {"min_over_mean", 0.25}}}};
  Json list = Json::array();
  Json times = Json::array();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    list.push_back({{"rank", rank},
                    {"state", rank == silent ? "stopped" : "answers"},
                    {"step", 813},
                    {"phase", rank == silent ? Json() : Json("backward")},
                    {"collective", nullptr},
                    {"seconds", nullptr},
                    {"memory_bytes", int64_t{1} << 30}});
    times.push_back({{"rank", rank},
                     {"host", "node0"},
                     {"stage", 0},
                     {"steps", 40},
                     {"compute", rank == slow ? 1.2 : 0.5},
                     {"data", 0.0},
                     {"saving", 0.0},
                     {"waiting", rank == slow ? 0.05 : 0.75},
                     {"slow", rank == slow ? Json("compute") : Json()}});
  }
  data.ranks = {{"ranks", list},
                {"missing", Json::array()},
                {"text", silent < 0 ? "all ranks answer\n" : "rank 3 is stopped\n"}};
  data.stragglers = {{"ranks", times},
                     {"text", slow < 0 ? "no rank holds up the others\n"
                                       : "rank 1 (node0) holds up the others: 1.2 s of compute\n"}};
  data.loss.name = "loss";
  for (int step = 1; step <= 812; ++step) {
    data.loss.x.push_back(step);
    data.loss.y.push_back(3.0 * std::exp(-step / 400.0));
  }
  return data;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  CHECK(lines.back().empty());
  lines.pop_back();
  return lines;
}

}  // namespace

TEST_CASE("a dashboard fits the window, at any size and for any number of ranks") {
  for (const int64_t ranks : {1, 2, 4, 16, 64, 1000}) {
    for (const auto& [columns, rows] :
         {std::pair{80, 24}, std::pair{60, 16}, std::pair{100, 30}, std::pair{200, 50}}) {
      for (const bool unicode : {false, true}) {
        term::Style style;
        style.width = columns;
        style.window = true;
        style.unicode = unicode;
        const auto lines = lines_of(dashboard_text(data_of(ranks, -1, -1), rows, style));
        CAPTURE(ranks, columns, rows, lines);
        CHECK(static_cast<int>(lines.size()) <= rows);
        for (const std::string& line : lines) CHECK(term::visible_width(line) <= columns);
        CHECK(lines.front() == "llama [dp_shard 2]");
      }
    }
  }
}

TEST_CASE("a stopped and a slow rank come first, and the verdicts are shown") {
  term::Style style;
  style.width = 80;
  const std::string text = dashboard_text(data_of(64, 3, 1), 24, style);
  CHECK_THAT(text, Catch::Contains("step 812 of 20 000, backward, loss 2.3145, 1.2 s per step, ") &&
                       Catch::Contains("1:01:01 left") &&
                       Catch::Contains("rank 1 (node0) holds up the others") &&
                       Catch::Contains("rank 3 is stopped") && Catch::Contains("more ranks"));
  std::vector<std::string> rows;
  for (const std::string& line : lines_of(text)) {
    if (line.find("1.00 GiB") != std::string::npos) rows.emplace_back(trim(line));
  }
  REQUIRE(rows.size() > 3);
  CHECK(rows[0].starts_with("3 "));
  CHECK_THAT(rows[0], Catch::Contains("stopped"));
  CHECK(rows[1].starts_with("1 "));
  CHECK(rows[2].starts_with("0 "));
}

TEST_CASE("the load of experts is shown if the model has any") {
  DashboardData data = data_of(2, -1, -1);
  const term::Style style{.width = 200};
  CHECK_THAT(dashboard_text(data, 24, style), Catch::Contains(", experts 0.25x to 1.50x, "));
  data.status["expert_load"] = nullptr;
  CHECK_THAT(dashboard_text(data, 24, style), !Catch::Contains("experts"));
}

TEST_CASE("a job without times and without losses has a dashboard too") {
  DashboardData data = data_of(2, -1, -1);
  data.stragglers = nullptr;
  data.loss = {};
  data.status["loss"] = nullptr;
  data.status["step_seconds"] = nullptr;
  data.status["paused"] = "am-repl 0.1.0, process 4711 of user 1000";
  const std::string text = dashboard_text(data, 24, {.width = 80});
  CHECK_THAT(text, Catch::Contains("paused by am-repl") && Catch::Contains("all ranks answer") &&
                       !Catch::Contains("holds up"));
}

}  // namespace am::inspect
