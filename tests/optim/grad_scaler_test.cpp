// Tests that the loss scale follows torch.amp.GradScaler.
#include "am/optim/grad_scaler.h"

#include <catch2/catch.hpp>

namespace am::optim {

using Verdict = GradScaler::Verdict;

TEST_CASE("a loss scale halves at an overflow and doubles after an interval without") {
  GradScalerOptions options;
  options.growth_interval = 3;
  GradScaler scaler(options);
  CHECK(scaler.scale() == 65536.0);
  CHECK(scaler.update(false) == Verdict::kStep);
  CHECK(scaler.update(false) == Verdict::kStep);
  CHECK(scaler.scale() == 65536.0);
  CHECK(scaler.update(true) == Verdict::kBackOff);
  CHECK(scaler.state() == LossScale{32768.0, 0});
  for (int step = 0; step < 3; ++step) CHECK(scaler.update(false) == Verdict::kStep);
  CHECK(scaler.state() == LossScale{65536.0, 0});
  GradScaler resumed(options);
  resumed.restore({1024.0, 2});
  CHECK(resumed.update(false) == Verdict::kStep);
  CHECK(resumed.scale() == 2048.0);
}

TEST_CASE("the interval is 2000 steps") {
  GradScaler scaler;
  for (int step = 0; step < 1999; ++step) scaler.update(false);
  CHECK(scaler.state() == LossScale{65536.0, 1999});
  scaler.update(false);
  CHECK(scaler.state() == LossScale{131072.0, 0});
}

TEST_CASE("a scale that can fall no further does not explain an overflow") {
  GradScaler scaler;
  for (int halved = 0; halved < 16; ++halved) CHECK(scaler.update(true) == Verdict::kBackOff);
  CHECK(scaler.scale() == 1.0);
  CHECK(scaler.update(true) == Verdict::kExhausted);
  CHECK(scaler.scale() == 1.0);
  CHECK(scaler.update(false) == Verdict::kStep);
}

TEST_CASE("a fixed scale stays") {
  GradScalerOptions options;
  options.init_scale = 128.0;
  options.growth_interval = 1;
  options.dynamic = false;
  GradScaler scaler(options);
  CHECK(scaler.update(false) == Verdict::kStep);
  CHECK(scaler.update(true) == Verdict::kExhausted);
  scaler.restore({65536.0, 0});
  CHECK(scaler.scale() == 128.0);
}

TEST_CASE("a scale stays where float32 ends") {
  GradScalerOptions options;
  options.growth_interval = 1;
  GradScaler scaler(options);
  for (int step = 0; step < 200; ++step) scaler.update(false);
  CHECK(scaler.scale() == 0x1p127);
}

}  // namespace am::optim
