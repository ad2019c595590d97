// Tests training with experts on several ranks: loss curves, the optimizer Muon, checkpoints that
// resume under another layout, and exports.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"
#include "support/train_curve.h"

namespace am::expert_layouts {
namespace {

struct Run {
  int64_t ranks = 1;
  std::string mesh = {}, strategy = {}, more = {};
  int64_t steps = 4;
  std::string optimizer = "lr = 2e-3\n";
  int64_t micro_batch = 1;
};

config::Plan plan_of_run(const Run& run) {
  return test::parse(
      cat("[model]\npath = \"table_routed\"\n[train]\nseq_len = 16\nglobal_batch_size = 8\n",
          "micro_batch_size = ", run.micro_batch, "\nmax_steps = ", run.steps,
          "\nmax_grad_norm = 1.0\n[optimizer]\neps = 1e-6\n", run.optimizer,
          "[data]\nkind = \"synthetic\"\n", test::float32_fsdp2(run.ranks, run.mesh, run.strategy),
          run.more));
}

std::unique_ptr<train::Trainer> make_trainer(const config::Plan& plan, const runtime::World& world,
                                             const run_folder::RunFolder& folder) {
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  return std::make_unique<train::Trainer>(job::make_job(plan, *config, world.size()), world, folder,
                                          train::TrainerCallbacks{});
}

const Run kPipeline = {.ranks = 4,
                       .mesh = "pp_size = 2\ntp_size = 2\n",
                       .more = "[pipeline]\nschedule = \"1f1b\"\nmicrobatches = 4\n",
                       .micro_batch = 2};
const Run kContext = {.ranks = 2, .mesh = "cp_size = 2\nep_size = 2\n", .micro_batch = 4};
const Run kSharded = {.ranks = 4, .mesh = "ep_size = 2\n"};
const Run kOverTp = {.ranks = 4, .mesh = "tp_size = 2\nep_size = 4\n", .micro_batch = 4};

}  // namespace

TEST_CASE("twenty steps of experts over ranks are one rank's") {
  const Run one = {.steps = 20, .micro_batch = 8};
  Run cut = kSharded;
  cut.steps = one.steps;
  const test::Curve wanted = test::train_curve(plan_of_run(one), 1);
  const test::Curve got = test::train_curve(plan_of_run(cut), cut.ranks);
  REQUIRE(got.losses.size() == 20);
  CHECK(wanted.losses.back() < wanted.losses.front());
  for (size_t i = 0; i < got.losses.size(); ++i) {
    INFO("step " << i);
    CHECK(got.losses[i] == Approx(wanted.losses[i]).epsilon(1e-5));
    CHECK(got.norms[i] == Approx(wanted.norms[i]).epsilon(1e-4));
  }
}

TEST_CASE("muon updates experts over ranks as one rank's") {
  const std::string muon = "name = \"muon\"\nlr = 1e-2\n";
  const Run one = {.optimizer = muon, .micro_batch = 8};
  const test::Curve wanted = test::train_curve(plan_of_run(one), 1);
  for (Run cut : {kSharded, kOverTp}) {
    cut.optimizer = muon;
    INFO(cut.mesh);
    const test::Curve got = test::train_curve(plan_of_run(cut), cut.ranks);
    for (size_t i = 0; i < got.losses.size(); ++i) {
      CHECK(got.losses[i] == Approx(wanted.losses[i]).epsilon(1e-3));
    }
  }
}

TEST_CASE("a checkpoint goes on where experts lie on other ranks") {
  const auto [before, after] = GENERATE_COPY(table<Run, std::vector<Run>>(
      {{kPipeline, {kContext, Run{.micro_batch = 8}}}, {kSharded, {kPipeline, kOverTp}}}));
  const TemporaryFolder temp;
  const run_folder::RunFolder folder(temp.path());
  const config::Plan plan = plan_of_run(before);
  std::vector<double> wanted(2);
  runtime::run_ranks(before.ranks, [&](const runtime::World& world) {
    const auto trainer = make_trainer(plan, world, folder);
    for (const int64_t step : {0, 1}) trainer->train_step(step);
    trainer->save(2);
    for (const int64_t step : {2, 3}) {
      const double loss = trainer->train_step(step).loss;
      if (world.rank() == 0) wanted[static_cast<size_t>(step) - 2] = loss;
    }
  });
  for (const Run& other : after) {
    const config::Plan next = plan_of_run(other);
    runtime::run_ranks(other.ranks, [&](const runtime::World& world) {
      const auto resumed = make_trainer(next, world, folder);
      RANK_CHECK(resumed->first_step() == 2);
      for (const size_t i : {0U, 1U}) {
        const double loss = resumed->train_step(static_cast<int64_t>(i) + 2).loss;
        RANK_CHECK(std::abs(loss - wanted[i]) < 1e-5 * wanted[i]);
      }
    });
  }
}

TEST_CASE("experts of all ranks are in an export") {
  const std::string model = GENERATE("table_routed", "table_stacked");
  const TemporaryFolder temp;
  const auto exported = [&](const std::string& name, const Run& run) {
    config::Plan plan = plan_of_run(run);
    plan.model.path = model;
    runtime::run_ranks(run.ranks, [&](const runtime::World& world) {
      const auto trainer = make_trainer(plan, world, run_folder::RunFolder("/am-no-such-run"));
      checkpoint::export_hf(temp.path() / name, trainer->model(), {.dtype = at::kFloat});
    });
    return frameworks::open_tensor_source(temp.path() / name);
  };
  const auto wanted = exported("one", {.micro_batch = 8});
  for (const Run& run : {kSharded, kPipeline}) {
    Run cut = run;
    cut.mesh += run.mesh == kSharded.mesh ? "" : "ep_size = 2\n";
    const auto got = exported(cat("cut", cut.mesh.size()), cut);
    REQUIRE(got->tensors().size() == wanted->tensors().size());
    for (const auto& tensor : wanted->tensors()) {
      INFO(tensor.name);
      CHECK(at::equal(checkpoint::read_all(*got, tensor.name),
                      checkpoint::read_all(*wanted, tensor.name)));
    }
  }
}

}  // namespace am::expert_layouts
