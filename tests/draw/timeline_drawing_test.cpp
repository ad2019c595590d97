#include <regex>

#include "am/base/json.h"
#include "am/draw/timeline_svg.h"
#include "am/draw/timeline_text.h"
#include "am/draw/timeline_trace.h"
#include "support/pytorch_orders.h"

using am::draw::timeline_svg;
using am::draw::timeline_text;
using am::pipeline::make_schedule;
using am::pipeline::PipelineShape;
using am::pipeline::Timeline;
using am::term::Style;

namespace {

Timeline even(const PipelineShape& shape) {
  return simulate(make_schedule(shape), am::pipeline::Durations::even(shape.stages(), shape.pp));
}

int count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

}  // namespace

TEST_CASE("a timeline in letters", "[schedule]") {
  CHECK(timeline_text(even({"1f1b", 2, 1, 3}), Style::plain()) ==
        "rank 0  F0 F1 ..... B0--- F2 B1--- .. B2---\n"
        "rank 1  .. F0 B0--- F1 B1--- F2 B2---\n");
  const std::string stages = timeline_text(even({"zbv_zero_bubble", 2, 2, 3}), Style::plain());
  CHECK(stages.find("rank 0  0F0 0F1 0F2 3F0 3I0 3W0 ") == 0);
  Style unicode;
  unicode.unicode = true;
  CHECK(timeline_text(even({"gpipe", 2, 1, 1}), unicode) ==
        "rank 0  F0 ········ B0───\n"
        "rank 1  ·· F0 B0───\n");
}

TEST_CASE("colours are the style's, and kinds differ", "[schedule]") {
  const Timeline timeline = even({"zbv_zero_bubble", 2, 2, 4});
  CHECK(timeline_text(timeline, Style::plain()).find('\x1b') == std::string::npos);
  Style color;
  color.color = true;
  const std::string text = timeline_text(timeline, color);
  CHECK(text.find(color.paint(am::term::Role::kAccent, "0F0")) != std::string::npos);
  CHECK(text.find(color.paint(am::term::Role::kWarning, "0W0")) != std::string::npos);
  CHECK(text.find(color.paint(am::term::Role::kHelp, "0I0")) != std::string::npos);
}

TEST_CASE("a wide timeline is cut at the width and says so", "[schedule]") {
  for (const int width : {40, 57, 100}) {
    Style style;
    style.width = width;
    for (const char* name : {"1f1b", "gpipe"}) {
      const std::string text = timeline_text(even({name, 12, 1, 200}), style);
      for (const std::string& line : am::split(text, '\n')) {
        CHECK(am::term::visible_width(line) <= width);
      }
      CHECK(text.find("% of the time") != std::string::npos);
    }
  }
  const std::string tall = timeline_text(even({"gpipe", 100, 1, 2}), Style::plain(), {.ranks = 10});
  CHECK(tall.find("rank 4 ") != std::string::npos);
  CHECK(tall.find("... 90 ranks\nrank 95 ") != std::string::npos);
  CHECK(tall.find("rank 50 ") == std::string::npos);
}

TEST_CASE("the picture has every pass with its name", "[schedule]") {
  const std::string svg = timeline_svg(even({"dual_pipe_v", 2, 2, 6}), "a <title> & more");
  CHECK(am::starts_with(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.find("a &lt;title&gt; &amp; more") != std::string::npos);
  CHECK(svg.find("<title>") != std::string::npos);
  CHECK(svg.find("href") == std::string::npos);
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(count(svg, "<title>\\d+F\\d+: stage") == 4 * 6);
  CHECK(count(svg, "<title>\\d+(B|I)\\d+: stage") == 4 * 6);
  CHECK(count(svg, "<g ") == count(svg, "</g>"));
  CHECK(count(svg, "<text") == count(svg, "</text>"));
}

TEST_CASE("overlapping halves of a pair stand one above the other", "[schedule]") {
  const auto schedule = make_schedule({"dual_pipe_v", 2, 2, 6});
  auto durations = am::pipeline::Durations::even(4, 2);
  CHECK(count(timeline_svg(simulate(schedule, durations), ""), "height=\"13.00\"") == 0);
  durations.pair_overlap = 0.5;
  int pairs = 0;
  for (const auto& list : schedule.ranks) {
    for (const auto& slot : list) pairs += slot.is_pair() ? 1 : 0;
  }
  CHECK(count(timeline_svg(simulate(schedule, durations), ""), "height=\"13.00\"") == 2 * pairs);
}

TEST_CASE("a picture of a huge timeline is cut", "[schedule]") {
  const std::string svg = timeline_svg(even({"gpipe", 64, 1, 2000}), "huge");
  CHECK(count(svg, "<g ") <= static_cast<int>(am::draw::kMostDrawnPasses));
  CHECK(count(svg, "<g ") > 10000);
  CHECK(svg.find("drawn up to") != std::string::npos);
}

TEST_CASE("the trace is JSON with one event a pass", "[schedule]") {
  const Timeline timeline = even({"zbv_zero_bubble", 3, 2, 6});
  am::Diagnostics found;
  const auto json = am::parse_json(am::draw::to_chrome_trace(timeline), "trace.json", found);
  REQUIRE(json.has_value());
  int passes = 0;
  int names = 0;
  for (const auto& event : (*json)["traceEvents"]) {
    CHECK(event["pid"] == event["tid"]);
    if (event["ph"] == "M") {
      ++names;
      CHECK(event["args"]["name"] == am::cat("rank ", event["pid"].get<int>()));
      continue;
    }
    CHECK(event["ph"] == "X");
    const auto& first = timeline.ranks[event["pid"].get<size_t>()];
    const bool known = std::any_of(first.begin(), first.end(), [&](const auto& pass) {
      return to_string(pass.action) == event["name"].template get<std::string>() &&
             event["ts"].template get<double>() == Approx(pass.start * 1000) &&
             event["dur"].template get<double>() == Approx((pass.end - pass.start) * 1000);
    });
    CHECK(known);
    ++passes;
  }
  CHECK(names == 3);
  CHECK(passes == 6 * 6 * 3);
}
