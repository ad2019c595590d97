#include "am/live/pause.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "am/base/error.h"
#include "am/live/condition.h"

namespace am::live {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a pause ends when its owner leaves, is silent, or asks nothing for long") {
  const auto start = Pause::Clock::now();
  Pause pause({.silent = 30s, .idle = 5min});
  CHECK_FALSE(pause.active());
  CHECK_FALSE(pause.why_over(start + 24h, start, false));  // there is no pause
  pause.begin(7, "ann", start);
  CHECK(pause.active());
  CHECK(pause.owner() == 7);
  CHECK_FALSE(pause.why_over(start + 29s, start, true));
  CHECK(pause.why_over(start + 29s, start, false)->find("left") != std::string::npos);
  CHECK(pause.why_over(start + 30s, start, true)->find("no keep-alive message") !=
        std::string::npos);
  // Keep-alive messages do not count as commands.
  CHECK_FALSE(pause.why_over(start + 299s, start + 298s, true));
  CHECK(pause.why_over(start + 300s, start + 299s, true)->find("no command") != std::string::npos);
  pause.used(start + 200s);
  CHECK_FALSE(pause.why_over(start + 499s, start + 490s, true));
  CHECK(pause.why_over(start + 500s, start + 490s, true));
  pause.end();
  CHECK_FALSE(pause.why_over(start + 24h, start, false));
}

TEST_CASE("conditions of a step's numbers") {
  observe::StepMetrics metrics;
  metrics.loss = 4.0;
  metrics.step = 12;
  const auto holds = [&](const char* a, const char* b, const char* c) {
    return Condition::parse({a, b, c}, step_numbers()).holds([&](std::string_view name) {
      return step_number(metrics, name);
    });
  };
  CHECK(holds("loss", ">", "3.5"));
  CHECK_FALSE(holds("loss", ">", "4"));
  CHECK(holds("loss", ">=", "4"));
  CHECK(holds("5", ">", "loss"));
  CHECK(holds("step", "==", "12"));
  CHECK_FALSE(holds("step", "!=", "12"));
  CHECK(holds("loss", "<=", "step"));
  CHECK_FALSE(holds("loss", "!=", "loss"));
  metrics.loss = std::nan("");
  CHECK(holds("loss", "!=", "loss"));
  CHECK_FALSE(holds("loss", ">", "0"));
  CHECK_THROWS_AS(Condition::parse({"loss", ">"}, step_numbers()), Error);
  CHECK_THROWS_AS(Condition::parse({"loss", "=", "1"}, step_numbers()), Error);
  CHECK_THROWS_AS(Condition::parse({"los", ">", "1"}, step_numbers()), Error);
  CHECK_THROWS_AS(Condition::parse({"loss", ">", ""}, step_numbers()), Error);
  CHECK(Condition::parse({"loss", ">", "1"}, step_numbers()).text() == "loss > 1");
}

}  // namespace
}  // namespace am::live
