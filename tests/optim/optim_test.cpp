// Compares learning-rate schedules, clipping and AdamW with hand-computed values.
// train/loop_test.cpp compares the whole training loop with PyTorch.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "am/optim/averaged.h"
#include "am/optim/clip.h"
#include "am/optim/elementwise.h"
#include "am/optim/schedule.h"
#include "am/runtime/world.h"
#include "support/rank_check.h"
#include "support/stand_in_device.h"

namespace am::optim {

TEST_CASE("schedules") {
  config::SchedulerSection scheduler;
  SECTION("constant with warm-up") {
    scheduler.warmup_steps = 4;
    CHECK(learning_rate(scheduler, 1.0, 10, 0) == 0.25);
    CHECK(learning_rate(scheduler, 1.0, 10, 3) == 1.0);
    CHECK(learning_rate(scheduler, 1.0, 10, 9) == 1.0);
  }
  SECTION("cosine reaches min_lr and stays") {
    scheduler.name = "cosine";
    scheduler.min_lr = 0.1;
    scheduler.decay_steps = 8;
    CHECK(learning_rate(scheduler, 1.0, 10, 0) == Approx(1.0));
    CHECK(learning_rate(scheduler, 1.0, 10, 4) == Approx(0.55));
    CHECK(learning_rate(scheduler, 1.0, 10, 8) == Approx(0.1));
    CHECK(learning_rate(scheduler, 1.0, 10, 9) == Approx(0.1));
  }
  SECTION("linear to max_steps") {
    scheduler.name = "linear";
    CHECK(learning_rate(scheduler, 1.0, 10, 0) == Approx(1.0));
    CHECK(learning_rate(scheduler, 1.0, 10, 5) == Approx(0.5));
  }
  SECTION("wsd holds, then falls over its last decay_steps") {
    scheduler.name = "wsd";
    scheduler.decay_steps = 4;
    CHECK(learning_rate(scheduler, 1.0, 20, 15) == Approx(1.0));
    CHECK(learning_rate(scheduler, 1.0, 20, 18) == Approx(0.5));
  }
  SECTION("a warm-up as long as the decay ends at min_lr") {
    scheduler.name = "cosine";
    scheduler.warmup_steps = 5;
    scheduler.decay_steps = 5;
    scheduler.min_lr = 0.2;
    CHECK(learning_rate(scheduler, 1.0, 10, 4) == 1.0);
    CHECK(learning_rate(scheduler, 1.0, 10, 5) == Approx(0.2));
  }
}

TEST_CASE("the first AdamW step moves by lr against the gradient's sign, after decay") {
  const at::Tensor parameter = at::full({2}, 2.0F);
  Elementwise optimizer({parameter}, {.weight_decay = 0.1});
  optimizer.step({at::tensor({0.5F, -3.0F})}, 0.01);
  CHECK(parameter[0].item<double>() == Approx(2.0 * (1 - 0.001) - 0.01).epsilon(1e-6));
  CHECK(parameter[1].item<double>() == Approx(2.0 * (1 - 0.001) + 0.01).epsilon(1e-6));
  CHECK(optimizer.steps() == 1);
}

TEST_CASE("an average follows the parameters, and takes their place on request") {
  const at::Tensor flat = at::full({6}, 2.0F);
  auto inner = std::make_unique<Elementwise>(std::vector{flat}, ElementwiseOptions());
  Averaged optimizer(std::move(inner), {flat}, {{0, 0, 4}, {0, 4, 2}}, 0.9, false);
  optimizer.swap_average();
  CHECK(at::equal(flat, at::full({6}, 2.0F)));
  at::Tensor wanted;
  for (int step = 0; step < 5; ++step) {
    optimizer.step({at::randn({6})}, 0.1);
    wanted = step == 0 ? flat.clone() : wanted * 0.9 + flat * 0.1;
  }
  const at::Tensor trained = flat.clone();
  const auto states = optimizer.state_of({0, 1, 3});
  REQUIRE(states.size() == 3);
  CHECK(states[0].name == "exp_avg");
  CHECK(states[2].name == "ema");
  CHECK(at::allclose(states[2].value, wanted.narrow(0, 1, 3)));
  optimizer.swap_average();
  CHECK(at::allclose(flat, wanted));
  CHECK(!at::allclose(flat, trained));
  optimizer.swap_average();
  CHECK(at::equal(flat, trained));
}

TEST_CASE("a parameter without a gradient is left alone") {
  const at::Tensor parameter = at::ones({2});
  Elementwise optimizer({parameter, at::ones({3})}, ElementwiseOptions());
  optimizer.step({at::Tensor(), at::ones({3})}, 0.1);
  CHECK(at::equal(parameter, at::ones({2})));
}

TEST_CASE("the norm counts every shard once, over all ranks") {
  runtime::run_ranks(2, [](const runtime::World& world) {
    const runtime::Group group = world.make_group("all", {0, 1});
    const std::vector<GradientShard> shards = {
        {at::full({2}, 3.0F), true},               // 2 different elements on each rank: 4 * 9
        {at::full({1}, 8.0F), world.rank() == 0},  // a replica on both ranks: 64
        {at::Tensor(), true}};
    RANK_CHECK(std::abs(global_norm(shards, group) - 10.0) < 1e-9);
  });
  CHECK(clip_factor(10.0, 0.0) == 1.0);
  CHECK(clip_factor(0.5, 1.0) == 1.0);
  CHECK(clip_factor(10.0, 1.0) == Approx(0.1).epsilon(1e-6));
  CHECK(std::isnan(clip_factor(NAN, 1.0)));
}

TEST_CASE("a device's kernels scale gradients in the pass of the update") {
  for (const Formula formula : {Formula::kAdamW, Formula::kAdam, Formula::kSgd}) {
    ElementwiseOptions options;
    options.formula = formula;
    options.momentum = formula == Formula::kSgd ? 0.9 : 0.0;
    const at::Tensor start = at::randn({100}), gradient = at::randn({100});
    const auto after_two_steps = [&](c10::Device device) {
      const at::Tensor flat = start.clone().to(device);
      Elementwise optimizer({flat}, options);
      CHECK(optimizer.scales() == !device.is_cpu());
      for (const double factor : {0.3, 1.0}) {
        const at::Tensor given = gradient.clone().to(device);
        optimizer.step({given}, 0.1, factor);
        CHECK(at::allclose(given.cpu(), gradient * factor));
      }
      return flat.cpu();
    };
    CHECK(at::allclose(after_two_steps(test::stand_in_device()), after_two_steps(at::kCPU)));
  }
}

TEST_CASE("a device's squared norm is the host's") {
  const auto norm = [](c10::Device device) {
    const at::Tensor ones = at::ones({5}, device);
    return squared_norm({{ones * 3, true}, {ones, false}, {ones * 2, true}, {at::Tensor(), true}});
  };
  CHECK(norm(test::stand_in_device()).cpu().item<double>() == Approx(65.0));
  CHECK(norm(at::kCPU).item<double>() == Approx(65.0));
}

}  // namespace am::optim
