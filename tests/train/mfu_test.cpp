// Tests the reported MFU of a step: am-run computes it from am-plan's FLOPs per token and the GPU's
// peak FLOPs in the dtype in which the plan computes.
#include <catch2/catch.hpp>
#include <string>

#include "am/base/text.h"
#include "am/predict/time/prediction.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/stand_in_device.h"
#include "support/temporary_folder.h"

namespace am {
namespace {

// Metrics of the first step on one stand-in device, and am-plan's prediction for the same plan.
struct StepAndPrediction {
  observe::StepMetrics metrics;
  predict::Prediction prediction;
};

StepAndPrediction one_step(const std::string& gpu, const std::string& strategy) {
  const config::Plan plan =
      test::parse(cat("[model]\npath = \"hf/llama\"\nweights = \"none\"\n[mesh]\nworld_size = 1\n"
                      "[strategy]\n",
                      strategy, "[train]\nseq_len = 16\nglobal_batch_size = 2\nmax_steps = 1\n",
                      "[data]\nkind = \"synthetic\"\n", gpu));
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  const auto job = job::make_job(plan, *config, 1);
  auto prediction = predict::predict_step(job.plan, *config, job.layout, 0, found);
  REQUIRE(prediction);
  StepAndPrediction both{{}, *std::move(prediction)};
  const TemporaryFolder folder;
  test::run_stand_ins(1, [&](const runtime::World& world) {
    train::Trainer trainer(job::make_job(plan, *config, 1), world,
                           run_folder::RunFolder(folder.path()), {});
    both.metrics = trainer.train_step(0);
  });
  return both;
}

}  // namespace

TEST_CASE("MFU of a step has the planner's FLOPs and peak") {
  const std::string strategy =
      GENERATE(std::string(test::kFullPrecision),
               std::string("mp_policy = { param_dtype = \"bfloat16\" }\n"));
  const std::string gpu = GENERATE("h100-sxm", "v100");
  CAPTURE(strategy, gpu);
  const auto [metrics, prediction] = one_step(cat("[cluster]\ngpu = \"", gpu, "\"\n"), strategy);
  REQUIRE(metrics.mfu);
  const double per_token = prediction.mfu / prediction.tokens_per_second_per_gpu;
  CHECK(*metrics.mfu == Approx(metrics.tokens_per_second_per_rank * per_token));
}

TEST_CASE("MFU is absent if neither the device nor the plan names a GPU") {
  CHECK_FALSE(one_step("", test::kFullPrecision).metrics.mfu);
}

}  // namespace am
