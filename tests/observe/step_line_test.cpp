#include "am/observe/step_line.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace am::observe;

namespace {

StepMetrics sample(int64_t step, double seconds) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 4.81372;
  metrics.grad_norm = 1.2041;
  metrics.lr = 1e-3;
  metrics.tokens = 4096;
  metrics.step_seconds = seconds;
  metrics.peak_memory_bytes = 432537600;
  fill_rates(metrics, 2);
  return metrics;
}

}  // namespace

TEST_CASE("the step line") {
  StepLine line(300);
  // After the first step, there is no estimate of the remaining time yet.
  CHECK(line.format(sample(1, 2.0)) ==
        "step   1/300 | loss 4.8137 | norm 1.204 | lr 1.00e-03 | 2.0 s | 2.0k tok/s (1.0k/rank) | "
        "mem 412.50 MiB");
  CHECK(
      line.format(sample(2, 0.25)) ==
      "step   2/300 | loss 4.8137 | norm 1.204 | lr 1.00e-03 | 250 ms | 16.4k tok/s (8.2k/rank) | "
      "mem 412.50 MiB | eta 0:01:15");
}

TEST_CASE("the last step has nothing left, and mfu shows where it is known") {
  StepLine line(2);
  line.format(sample(1, 1.0));
  StepMetrics last = sample(2, 1.0);
  last.mfu = 0.4123;
  last.peak_memory_bytes = 0;
  CHECK(
      line.format(last) ==
      "step 2/2 | loss 4.8137 | norm 1.204 | lr 1.00e-03 | 1.0 s | 4.1k tok/s (2.0k/rank) | 41.2% "
      "mfu");
}

TEST_CASE("a step after which there was validation says its loss") {
  StepLine line(2);
  StepMetrics metrics = sample(1, 1.0);
  metrics.validation_loss = 4.90004;
  CHECK_THAT(line.format(metrics), Catch::Contains("/rank) | validation loss 4.9000 (ppl 134.3)"));
  metrics.validation_losses = {{"code", 1.0}};
  CHECK_THAT(line.format(metrics), Catch::Contains("(ppl 134.3) | code 1.0000 (ppl 2.718)"));
}

TEST_CASE("a step of a minute and longer is shown in seconds, as am-plan shows it") {
  StepLine line(100);
  CHECK_THAT(line.format(sample(1, 63.13)), Catch::Contains("| 63.1 s |"));
  CHECK_THAT(line.format(sample(2, 1204.0)), Catch::Contains("| 1204 s |"));
}

TEST_CASE("a step line has the passes through the data") {
  StepLine line(100);
  StepMetrics metrics = sample(1, 1.0);
  metrics.epochs = {1.257};
  CHECK_THAT(line.format(metrics), Catch::Contains("| epoch 1.26 |"));
  metrics.epochs = {1.257, 0.5};  // a mixture of two sources
  CHECK_THAT(line.format(metrics), !Catch::Contains("epoch"));
}

TEST_CASE("validation and saving count for the time left") {
  TimeLeft left;
  left.add(/*step_seconds=*/9.0, /*other_seconds=*/0.0);  // the first step does not count
  CHECK_FALSE(left.seconds(10));
  left.add(1.0, 0.0);
  CHECK(left.seconds(10).value() == Approx(10.0));
  left.add(1.0, 0.5);
  left.add(1.0, 3.5);  // 4 s of validation and saving in 4 steps
  CHECK(left.seconds(10).value() == Approx(20.0));
  CHECK(left.seconds(0).value() == 0.0);
}

TEST_CASE("nan prints as nan, whatever its sign") {
  StepLine line(2);
  StepMetrics metrics = sample(1, 1.0);
  metrics.loss = -std::numeric_limits<double>::quiet_NaN();
  metrics.grad_norm = std::numeric_limits<double>::infinity();
  CHECK_THAT(line.format(metrics), Catch::Contains("| loss nan | norm inf |"));
}

TEST_CASE("a step line says how evenly experts are taken") {
  StepLine line(1);
  StepMetrics metrics = sample(1, 1.0);
  metrics.expert_load = ExpertLoad{1.834, 0.42};
  CHECK_THAT(line.format(metrics), Catch::Contains(" | experts 0.42-1.83x"));
}

TEST_CASE("the time left: first step out, bias corrected, newest counts most") {
  TimeLeft left;
  CHECK_FALSE(left.step_seconds());
  left.add(100.0);
  CHECK_FALSE(left.seconds(10));
  left.add(2.0);
  CHECK(*left.step_seconds() == Approx(2.0));
  CHECK(*left.seconds(10) == Approx(20.0));
  left.add(4.0);
  // The two step times have weights 0.95 and 1, divided by their sum.
  CHECK(*left.step_seconds() == Approx((0.95 * 2.0 + 4.0) / 1.95));
  for (int i = 0; i < 400; ++i) left.add(4.0);
  CHECK(*left.step_seconds() == Approx(4.0));
}

TEST_CASE("short rates") {
  CHECK(short_rate(0) == "0");
  CHECK(short_rate(950.4) == "950");
  CHECK(short_rate(999.6) == "1.0k");
  CHECK(short_rate(19300) == "19.3k");
  CHECK(short_rate(999960) == "1.00M");
  CHECK(short_rate(1.234e6) == "1.23M");
  CHECK(short_rate(std::numeric_limits<double>::quiet_NaN()) == "nan");
}
