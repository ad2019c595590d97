#include "am/observe/loss_spikes.h"

#include <catch2/catch.hpp>
#include <limits>

namespace am::observe {
namespace {

// Adds losses that alternate between 2.0 and 2.2, and expects no warning.
void add_ordinary(LossSpikes& spikes, int64_t first, int64_t count) {
  for (int64_t i = 0; i < count; ++i) CHECK_FALSE(spikes.add(first + i, i % 2 == 0 ? 2.0 : 2.2));
}

}  // namespace

TEST_CASE("the first loss of a spike is reported, with its distance in standard deviations") {
  LossSpikes spikes(6.0, 16);
  add_ordinary(spikes, 1, 16);
  CHECK_FALSE(spikes.add(17, 2.6));  // 5 standard deviations (0.1 each) above the mean
  add_ordinary(spikes, 18, 16);
  const auto warning = spikes.add(34, 3.1);
  REQUIRE(warning);
  CHECK(*warning ==
        "loss spike: 3.1000 at step 34 is 10.0 standard deviations above the mean of the last 16 "
        "steps, 2.1000");
  CHECK_FALSE(spikes.add(35, 5.0));  // the same spike
  add_ordinary(spikes, 36, 17);
  CHECK(spikes.add(60, 3.1));
}

TEST_CASE("a falling, a constant and a short series have no spikes") {
  LossSpikes spikes(6.0, 16);
  for (int64_t step = 1; step <= 7; ++step) CHECK_FALSE(spikes.add(step, step < 7 ? 2.0 : 900.0));
  LossSpikes constant(6.0, 16);
  for (int64_t step = 1; step <= 40; ++step) CHECK_FALSE(constant.add(step, 2.0));
  // The standard deviation counts as at least 0.1 % of the mean, so a spike in this series is more
  // than 0.6 % above the mean.
  CHECK_FALSE(constant.add(41, 2.01));
  CHECK(constant.add(42, 2.05));
  LossSpikes falling(6.0, 16);
  double loss = 10.0;
  for (int64_t step = 1; step <= 40; ++step, loss *= 0.9) CHECK_FALSE(falling.add(step, loss));
  LossSpikes off(0.0, 16);
  for (int64_t step = 1; step <= 40; ++step) CHECK_FALSE(off.add(step, step < 40 ? 2.0 : 900.0));
}

TEST_CASE("losses that are not finite are no spikes") {
  LossSpikes spikes(6.0, 16);
  add_ordinary(spikes, 1, 16);
  CHECK_FALSE(spikes.add(17, std::numeric_limits<double>::quiet_NaN()));
  CHECK_FALSE(spikes.add(18, std::numeric_limits<double>::infinity()));
  CHECK(spikes.add(19, 3.1));
}

}  // namespace am::observe
