// Compares goodput by formula with simulated random failures and with Llama 3's report.
#include "am/predict/time/goodput.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "layout/plan_text.h"

namespace am::predict {
using namespace cluster;

namespace {

// Simulates a job event by event until it has failed `failures` times, and returns its goodput.
double simulated_goodput(double work, const FailureLosses& losses, int failures, unsigned seed) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> until_failure(1.0 / losses.between_failures);
  double all = 0.0;
  double kept = 0.0;
  double left = until_failure(random);  // time until the next failure
  for (int failed = 0; failed < failures;) {
    if (left < losses.restart) {  // fails during the restart
      all += left;
      ++failed;
      left = until_failure(random);
      continue;
    }
    all += losses.restart;
    left -= losses.restart;
    double now = 0.0;
    double on_disk = 0.0;  // time at which the last save is on the disk
    for (;;) {
      now = std::max(now + work + losses.save, on_disk);  // a save waits for the previous save
      on_disk = now + losses.until_saved;
      if (on_disk > left) break;
      kept += work;
    }
    all += left;
    ++failed;
    left = until_failure(random);
  }
  return kept / all;
}

}  // namespace

TEST_CASE("the goodput of 10,000 failures is the formula's") {
  const FailureLosses cases[] = {
      {.between_failures = 11'000, .restart = 180, .save = 3},
      {.between_failures = 3'000, .restart = 600, .save = 120},
      {.between_failures = 11'000, .restart = 180, .save = 0.5, .until_saved = 60},
      {.between_failures = 900, .restart = 300, .save = 1, .until_saved = 200},
  };
  for (const FailureLosses& losses : cases) {
    for (const double work : {60.0, 360.0, 1800.0}) {
      INFO(losses.between_failures << ", " << work);
      CHECK(simulated_goodput(work, losses, 10'000, 7) ==
            Approx(expected_goodput(work, losses)).epsilon(0.01));
    }
  }
  // Counter-check: a formula that ignores the loss of a save in progress would fail.
  FailureLosses forgets = cases[3];
  forgets.until_saved = 0.0;
  CHECK(std::abs(simulated_goodput(360.0, cases[3], 10'000, 7) / expected_goodput(360.0, forgets) -
                 1.0) > 0.1);
}

TEST_CASE("Llama 3's failures and saves give what its authors report") {
  // Llama 3 405B on 16,384 GPUs: 419 failures in 54 days, more than 90 % effective training time.
  // Storage: 2 TB/s.
  const auto plan = test::plan_of(
      "[mesh]\nworld_size = 16384\ntp_size = 8\npp_size = 16\n[strategy]\nname = \"fsdp2\"\n"
      "[train]\nseq_len = 8192\nglobal_batch_size = 2048\n[cluster]\ngpu = \"h100-sxm\"\n"
      "hours_between_failures = 50700\nstorage_gb_per_s = 2000\nrestart_minutes = 10\n",
      "llama-3.1-405b");
  const auto layout = test::layout_of(plan, test::model_of("llama-3.1-405b"));
  Diagnostics found;
  const auto losses = failure_losses(plan, layout, *find_gpu("h100-sxm", {}, {}, found));
  REQUIRE(losses.has_value());
  CHECK(losses->between_failures / 3600.0 == Approx(3.1).epsilon(0.01));
  CHECK(losses->checkpoint_bytes == Approx(405.85e9 * 12).epsilon(0.001));
  CHECK(expected_goodput(360.0, *losses) > 0.90);
  CHECK(expected_goodput(360.0, *losses) < 0.95);
}

TEST_CASE("the best interval is the best of all, and near Young's where failures are rare") {
  const FailureLosses losses{.between_failures = 11'000, .restart = 180, .save = 5};
  const SaveInterval best = best_interval(7.0, losses);
  for (int64_t steps = 1; steps < 2'000; ++steps) {
    CHECK(expected_goodput(7.0 * static_cast<double>(steps), losses) <= best.goodput);
  }
  const double young = std::sqrt(2.0 * losses.save * losses.between_failures);
  CHECK(static_cast<double>(best.steps) * 7.0 == Approx(young).epsilon(0.05));
  CHECK(best_interval(1e5, losses).steps == 1);
  const FailureLosses late{.between_failures = 11'000, .restart = 180, .until_saved = 60};
  CHECK(best_interval(7.0, late).steps == 9);  // each save waits for the previous save
}

TEST_CASE("without rates there is no goodput") {
  const auto plan = test::plan_of("[mesh]\nworld_size = 8\n");
  const auto layout = test::layout_of(plan, test::model_of("llama-3.1-8b"));
  CHECK_FALSE(failure_losses(plan, layout, Gpu{}));
}

}  // namespace am::predict
