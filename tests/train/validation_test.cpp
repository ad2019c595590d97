// The validation loss is equal under every layout, and validation does not change training.
#include "am/train/validation.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/observe/metrics.h"
#include "am/tensor/memory_meter.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"

namespace am {
namespace {

using test::float32_fsdp2;

// Writes a file of `count` tokens of the model's vocabulary, which differ from the training data.
// Returns the path of the file.
std::filesystem::path write_other_tokens(const std::filesystem::path& folder,
                                         int count = 16 * 40 + 1) {
  const std::filesystem::path path = folder / "other.bin";
  std::ofstream out(path, std::ios::binary);
  for (int i = 0; i < count; ++i) {
    const auto token = static_cast<uint16_t>((i * i + 3 * i) % 61);
    out.write(reinterpret_cast<const char*>(&token), sizeof(token));
  }
  return path;
}

std::string validation_plan(const std::string& layout, const std::string& validation,
                            const std::string& more = "") {
  return cat("[model]\npath = \"loop/model\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n",
             "global_batch_size = 12\nmax_steps = 5\n[optimizer]\nlr = 1e-2\n",
             "[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\n", validation, more, layout);
}

// Trains from the folder's newest checkpoint to the plan's last step or, if `until` is not 0, to
// step `until`. Returns all lines of metrics.jsonl.
std::vector<observe::StepMetrics> validated_run(const std::string& text, int64_t ranks,
                                                const std::filesystem::path& folder,
                                                int64_t until = 0) {
  const config::Plan plan = test::parse(text);
  const run_folder::RunFolder runs(folder);
  run_folder::RunFolder::create(folder);
  launch::StopSignal stop;
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    train::TrainerCallbacks callbacks;
    callbacks.step = [&](const observe::StepMetrics& metrics) {
      if (metrics.step == until - 1) stop.request();
    };
    train::Trainer trainer(job::make_job(plan, *config, world.size()), world, runs, callbacks);
    trainer.run(stop);
  });
  return observe::read_metrics(runs.metrics_file());
}

double loss_of(train::Validation& validation) {
  observe::StepMetrics metrics;
  metrics.step = 1;
  validation.run(metrics);
  return *metrics.validation_loss;
}

std::string validation_on(const std::filesystem::path& path, int64_t every) {
  return cat("[validation]\nevery = ", every, "\nsteps = 2\npath = \"", path.string(), "\"\n");
}

}  // namespace

TEST_CASE("validation changes nothing of training, and has one loss under every layout") {
  const std::vector<test::LayoutCase> layouts = {
      {"one rank", 1, float32_fsdp2(1)},
      {"fsdp2 on 3", 3, float32_fsdp2(3)},
      {"fsdp2 on 3, prefetch", 3, float32_fsdp2(3, "", "enable_fsdp2_prefetch = true\n")},
      {"fsdp2 on 4, resharded by 2", 2,
       float32_fsdp2(2, "", "reshard_after_forward = true\nactivation_checkpointing = \"full\"\n")},
      {"tp 2, sequence parallel", 2,
       float32_fsdp2(2, "tp_size = 2\n", "sequence_parallel = true\n")},
      {"hsdp 2 x 3", 6, float32_fsdp2(6, "dp_replicate_size = 2\n")},
      {"ddp on 2", 2, "[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n"},
      {"megatron_fsdp 1 on 2", 2,
       "[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\nzero_dp_strategy = 1\n"},
      {"megatron_fsdp 3 on 2", 2,
       "[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\nfsdp_double_buffer = "
       "true\n"}};
  const TemporaryFolder temp;
  const std::filesystem::path other = write_other_tokens(temp.path());
  std::vector<double> wanted;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& layout = layouts[i];
    INFO(layout.name);
    const auto without =
        validated_run(validation_plan(layout.toml, ""), layout.ranks, temp.path() / cat("a", i));
    const auto with = validated_run(validation_plan(layout.toml, validation_on(other, 2)),
                                    layout.ranks, temp.path() / cat("b", i));
    REQUIRE(without.size() == 5);
    REQUIRE(with.size() == 5);
    std::vector<double> losses;
    for (size_t step = 0; step < 5; ++step) {
      CHECK(with[step].loss == without[step].loss);
      CHECK(with[step].grad_norm == without[step].grad_norm);
      CHECK_FALSE(without[step].validation_loss);
      // Validation runs after every second step and after the last step.
      CHECK(with[step].validation_loss.has_value() == (step != 0 && step != 2));
      if (with[step].validation_loss) losses.push_back(*with[step].validation_loss);
    }
    REQUIRE(losses.size() == 3);
    if (i == 0) wanted = losses;
    for (size_t k = 0; k < losses.size(); ++k) {
      CHECK(losses[k] == Approx(wanted[k]).epsilon(1e-5));
      CHECK(losses[k] != with[2 * k + 1 < 5 ? 2 * k + 1 : 4].loss);
    }
  }
}

TEST_CASE("validation takes the mean over the first batches, by a plain forward pass") {
  const TemporaryFolder temp;
  const config::Plan plan = test::parse(
      validation_plan(float32_fsdp2(1), validation_on(write_other_tokens(temp.path()), 1)));
  runtime::run_ranks(1, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    train::Validation validation(plan, *rank.model, world);
    // All parameters are zeros, so all tokens are equally likely.
    RANK_CHECK(std::abs(loss_of(validation) - std::log(64.0)) < 1e-6);
    rank.model->for_each_owned(
        [](parallel::ParamGroup& group, size_t i, const parallel::LocalParameter&) {
          const at::Tensor value = group.view_in(group.flat(), i);
          value.copy_(at::arange(value.numel()).view(value.sizes()).sin().mul(0.3));
        });
    // The validation data are the first 24 rows of 16 tokens, in order.
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i <= 24 * 16; ++i) tokens.push_back((i * i + 3 * i) % 61);
    const at::Tensor all = at::tensor(tokens);
    const at::NoGradGuard no_grad;
    const at::Tensor ids = all.narrow(0, 0, 24 * 16).view({24, 16});
    const at::Tensor labels = all.narrow(0, 1, 24 * 16).contiguous().view({24, 16});
    const double sum = rank.model->loss_sum(rank.model->forward(ids), labels).item<double>();
    const double loss = loss_of(validation);
    RANK_CHECK(std::abs(loss - sum / (24 * 16)) < 1e-5);
    RANK_CHECK(loss_of(validation) == loss);
    RANK_CHECK(validation.due(1));
  });
}

TEST_CASE("a resumed run has the validation losses of one that was never stopped") {
  const TemporaryFolder temp;
  const std::string text =
      validation_plan(float32_fsdp2(2), validation_on(write_other_tokens(temp.path()), 2),
                      "[checkpoint]\nevery = 1\n");
  const auto whole = validated_run(text, 2, temp.path() / "whole");
  validated_run(text, 2, temp.path() / "cut", /*until=*/3);
  const auto cut = validated_run(text, 2, temp.path() / "cut");
  REQUIRE(cut.size() == whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(cut[i].loss == whole[i].loss);
    CHECK(cut[i].validation_loss == whole[i].validation_loss);
  }
}

TEST_CASE("validation on synthetic data is on other data than training's") {
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"loop/model\"\n[train]\nseq_len = 16\nmax_steps = 1\n[optimizer]\n",
          "lr = 0.0\n[data]\nkind = \"synthetic\"\nshuffle = false\n[validation]\nevery = 1\n",
          "steps = 1\n", float32_fsdp2(1)));
  runtime::run_ranks(1, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    train::Trainer trainer(job::make_job(plan, *config, 1), world,
                           run_folder::RunFolder("/am-no-such-run"), {});
    // With lr = 0, the training loss and the validation loss are for equal parameters and equal
    // numbers of samples. The losses differ because the samples differ.
    const observe::StepMetrics metrics = trainer.train_step(0);
    RANK_CHECK(metrics.validation_loss && *metrics.validation_loss != metrics.loss);
  });
}

TEST_CASE("validation keeps training's memory") {
  const TemporaryFolder temp;
  const std::string layout = GENERATE(
      std::string("[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n"), float32_fsdp2(2));
  const auto peak = [&](const std::string& validation) {
    const config::Plan plan = test::parse(validation_plan(layout, validation));
    int64_t bytes = 0;
    runtime::run_ranks(2, [&](const runtime::World& world) {
      Diagnostics found;
      const auto config = model::load_config(plan.resolve(plan.model.path), found);
      const tensor::MemoryMeter meter;
      train::Trainer trainer(job::make_job(plan, *config, 2), world,
                             run_folder::RunFolder(temp.path() / "none"), {});
      for (const int64_t step : {0, 1, 2}) trainer.train_step(step);
      if (world.rank() == 0) bytes = meter.peak().total();
    });
    return bytes;
  };
  CHECK(peak(validation_on(write_other_tokens(temp.path()), 1)) == peak(""));
}

TEST_CASE("named sets have losses of their own, under every layout") {
  const TemporaryFolder temp;
  const std::string other = write_other_tokens(temp.path()).string();
  const std::string sets = cat("[[validation.set]]\nname = \"other\"\npath = \"", other,
                               "\"\n[[validation.set]]\nname = \"seen\"\npath = "
                               "\"loop/tokens.bin\"\n");
  const std::string alone = "[validation]\nevery = 5\nsteps = 2\n" + sets;
  std::vector<observe::StepMetrics> last;
  int number = 0;
  const auto run = [&](const std::string& validation, const std::string& layout, int64_t ranks) {
    const auto folder = temp.path() / cat("run-", number++);
    return validated_run(validation_plan(layout, validation), ranks, folder).back();
  };
  const auto beside = run(validation_on(other, 5) + sets, float32_fsdp2(1), 1);
  REQUIRE(beside.validation_losses.size() == 2);
  CHECK(beside.validation_losses[0] ==
        std::pair<std::string, double>("other", *beside.validation_loss));
  CHECK(beside.validation_losses[1].first == "seen");
  CHECK(beside.validation_losses[1].second < *beside.validation_loss);
  for (const auto& [layout, ranks] :
       {std::pair{float32_fsdp2(1), 1}, std::pair{float32_fsdp2(2), 2},
        std::pair{float32_fsdp2(2, "pp_size = 2\n"), 2},
        std::pair{float32_fsdp2(2, "tp_size = 2\n"), 2}}) {
    INFO(layout);
    const auto metrics = run(alone, layout, ranks);
    REQUIRE(metrics.validation_losses.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(metrics.validation_losses[i].second ==
            Approx(beside.validation_losses[i].second).epsilon(1e-5));
    }
    // Without validation.path, validation_loss is the mean over the labels of all sets. The two
    // sets have equal numbers of labels here.
    CHECK(*metrics.validation_loss ==
          Approx((metrics.validation_losses[0].second + metrics.validation_losses[1].second) / 2));
  }
}

TEST_CASE("validation's data is looked at before the first step") {
  const TemporaryFolder temp;
  const config::Plan plan = test::parse(
      validation_plan(float32_fsdp2(1), validation_on(write_other_tokens(temp.path(), 12), 1)));
  runtime::run_ranks(1, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    std::string said;
    try {
      train::Validation validation(plan, *rank.model, world);
    } catch (const Error& error) {
      said = error.what();
    }
    RANK_CHECK(said.find("12 tokens") != std::string::npos);
  });
}

}  // namespace am
