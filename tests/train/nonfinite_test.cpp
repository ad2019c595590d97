// A step with a non-finite loss or gradient ends the job or is skipped, under every strategy, and
// nothing non-finite is saved. Most tests overwrite a gradient element on one rank after backward,
// when the gradients are complete.
#include "am/train/nonfinite.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <mutex>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"

namespace am {
namespace {

using test::float32_fsdp2;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string plan_text(const std::string& layout, const std::string& train,
                      const std::string& more = "") {
  return cat("[model]\npath = \"loop/model\"\n[train]\nseq_len = 16\nglobal_batch_size = 8\n",
             "micro_batch_size = 2\n", train, "\n[optimizer]\nlr = 1e-2\n",
             "[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\nshuffle = false\n", more,
             layout);
}

const std::vector<test::LayoutCase>& layouts() {
  static const std::vector<test::LayoutCase> all = {
      {"one rank", 1, float32_fsdp2(1)},
      {"fsdp2", 2, float32_fsdp2(2)},
      {"hsdp", 4, float32_fsdp2(4, "dp_replicate_size = 2\n")},
      {"tp", 2, float32_fsdp2(2, "tp_size = 2\n")},
      {"ddp", 2, "[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n"},
      {"megatron_fsdp", 2,
       "[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\n"
       "check_for_nan_in_grad = false\n"}};
  return all;
}

// A trainer that overwrites one gradient element on rank `rank` with `value` in step `step`,
// counted from 1; 0: in no step.
class Victim {
 public:
  Victim(const config::Plan& plan, const runtime::World& world, const run_folder::RunFolder& run,
         int64_t step, int64_t rank)
      : here_(world.rank() == rank), step_(step) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    train::TrainerCallbacks callbacks;
    callbacks.phase = [this](const char* phase) { at_phase(phase); };
    callbacks.log = [this](const std::string& line) { log += line + "\n"; };
    trainer = std::make_unique<train::Trainer>(job::make_job(plan, *config, world.size()), world,
                                               run, callbacks);
    now_ = trainer->first_step();
  }

  // Returns the parameters as this rank stores them.
  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> all;
    for (const auto& group : trainer->model().data_parallel().groups()) {
      all.push_back(group->flat().clone());
    }
    return all;
  }

  // Returns the error of the first step; empty if there is none.
  std::string first_step_says() {
    try {
      trainer->train_step(0);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  std::unique_ptr<train::Trainer> trainer;
  std::string log;
  double value = kNan;  // written to the first element of the gradient

 private:
  void at_phase(const char* phase) {
    if (std::string_view(phase) != "backward" || ++now_ != step_ || !here_) return;
    trainer->model().for_each_owned(
        [this](parallel::ParamGroup& group, size_t i, const parallel::LocalParameter& owned) {
          if (owned.name != "model.layers.1.mlp.up_proj.weight") return;
          at::Tensor gradient = group.view_in(group.flat_grad(), i);
          gradient.view({-1})[0] = value;
        });
  }

  bool here_;
  int64_t step_;
  int64_t now_ = 0;
};

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return a.size() == b.size();
}

}  // namespace

TEST_CASE("report_nan_in_param_grad names the rank that computed the gradient") {
  // With report_nan_in_param_grad, each rank checks its gradients before they are summed over
  // ranks. check_for_nan_in_grad, which checks the sums, is off here.
  for (const int64_t level : {0, 3}) {
    for (const bool reports : {false, true}) {
      INFO("level " << level << ", reports " << reports);
      const config::Plan plan = test::parse(plan_text(
          cat("[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\nzero_dp_strategy = ",
              level, "\ncheck_for_nan_in_grad = false\nreport_nan_in_param_grad = ",
              reports ? "true" : "false", "\n"),
          "max_steps = 1"));
      std::string said;
      try {
        runtime::run_ranks(2, [&](const runtime::World& world) {
          test::RankModel rank(plan, world);
          checkpoint::load_or_initialize(*rank.model, plan);
          const at::Tensor ids = at::arange(16).view({1, 16});
          const at::Tensor loss = rank.model->loss_sum(rank.model->forward(ids), ids);
          (loss * (world.rank() == 1 ? kNan : 1.0)).backward();
          rank.model->data_parallel().finish_backward();
        });
      } catch (const Error& error) {
        said = error.what();
      }
      CHECK(said.empty() == !reports);
      if (!reports) continue;
      CHECK_THAT(said,
                 Catch::Contains(" values in the gradient of lm_head.weight are") &&
                     Catch::Contains(" not finite on rank 1, before the gradient is reduced"));
    }
  }
}

TEST_CASE("a step that is not finite stops the job before it changes anything") {
  for (const auto& layout : layouts()) {
    DYNAMIC_SECTION(layout.name) {
      const TemporaryFolder temp;
      const config::Plan plan = test::parse(
          plan_text(layout.toml, "max_steps = 5", "[checkpoint]\nevery = 1\nkeep = 1\n"));
      // Replicas hold equal gradients, and only the first replica's are checked. The broken
      // gradient is therefore on rank 0 if ranks are replicas.
      const bool replicas = layout.name == "ddp" || layout.name == "hsdp";
      const int64_t broken = replicas ? 0 : layout.ranks - 1;
      const launch::StopSignal stop;
      runtime::run_ranks(layout.ranks, [&](const runtime::World& world) {
        const run_folder::RunFolder run(temp.path());
        Victim victim(plan, world, run, /*step=*/3, broken);
        std::string said;
        try {
          victim.trainer->run(stop);
        } catch (const Error& error) {
          RANK_CHECK(error.kind() == ErrorKind::kNumeric);
          RANK_CHECK(!error.hint().empty());
          said = error.what();
        }
        RANK_CHECK(said ==
                   cat("step 3: the gradient norm is nan; gradients are not finite on rank ",
                       broken, " (first: model.layers.1.mlp.up_proj.weight)"));
        // No parameter was updated: the parameters equal those in the checkpoint of step 2.
        Victim resumed(plan, world, run, 0, 0);
        RANK_CHECK(resumed.trainer->first_step() == 2);
        RANK_CHECK(equal(victim.values(), resumed.values()));
      });
    }
  }
}

TEST_CASE("on_nonfinite = \"skip\" leaves parameters, moments and AdamW's step alone") {
  for (const auto& layout : layouts()) {
    DYNAMIC_SECTION(layout.name) {
      const TemporaryFolder temp;
      const config::Plan plan = test::parse(plan_text(
          layout.toml, "max_steps = 4\non_nonfinite = \"skip\"", "[checkpoint]\nevery = 3\n"));
      runtime::run_ranks(layout.ranks, [&](const runtime::World& world) {
        const run_folder::RunFolder run(temp.path());
        Victim victim(plan, world, run, /*step=*/2, 0);
        train::Trainer& trainer = *victim.trainer;
        RANK_CHECK(trainer.train_step(0).skipped_steps == 0);
        const auto before = victim.values();
        const observe::StepMetrics skipped = trainer.train_step(1);
        RANK_CHECK(std::isnan(skipped.grad_norm));
        RANK_CHECK(skipped.skipped_steps == 1);
        RANK_CHECK(equal(victim.values(), before));
        RANK_CHECK(world.rank() != 0 || victim.log.find("skipped     step 2") != std::string::npos);
        RANK_CHECK(trainer.train_step(2).skipped_steps == 1);
        trainer.save(3);
        trainer.train_step(3);
        // A trainer that resumes from the checkpoint of step 3 has the parameters of `victim` after
        // its next step. The checkpoint counts two AdamW updates, because step 2 was skipped.
        Victim resumed(plan, world, run, 0, 0);
        RANK_CHECK(resumed.trainer->first_step() == 3);
        RANK_CHECK(resumed.trainer->train_step(3).skipped_steps == 1);
        RANK_CHECK(equal(resumed.values(), victim.values()));
      });
    }
  }
}

TEST_CASE("a skipped step is as if its batch had not been") {
  // The update of step 3 after a skipped step 2 equals the update of an AdamW that received two
  // gradients.
  const config::Plan plan =
      test::parse(plan_text(float32_fsdp2(1), "max_steps = 3\non_nonfinite = \"skip\""));
  const TemporaryFolder temp;
  runtime::run_ranks(1, [&](const runtime::World& world) {
    const run_folder::RunFolder run(temp.path());
    Victim victim(plan, world, run, /*step=*/2, 0);
    Victim other(plan, world, run, 0, 0);
    for (const int64_t step : {0, 1, 2}) victim.trainer->train_step(step);
    for (const int64_t step : {0, 2}) other.trainer->train_step(step);
    RANK_CHECK(equal(victim.values(), other.values()));
  });
}

TEST_CASE("on_nonfinite = \"continue\" never saves over what is whole") {
  const TemporaryFolder temp;
  const config::Plan plan =
      test::parse(plan_text(float32_fsdp2(2), "max_steps = 4\non_nonfinite = \"continue\"",
                            "[checkpoint]\nevery = 1\nkeep = 1\nexport = \"hf\"\n"));
  const launch::StopSignal stop;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    const run_folder::RunFolder run(temp.path());
    Victim victim(plan, world, run, /*step=*/3, 1);
    const train::TrainResult result = victim.trainer->run(stop);
    RANK_CHECK(result.steps == 4);
    RANK_CHECK(result.checkpoint.filename() == "step-2");
    RANK_CHECK(result.exported.empty());
    RANK_CHECK(world.rank() != 0 ||
               victim.log.find("checkpoint step-3 is not written") != std::string::npos);
    RANK_CHECK(run_folder::list_checkpoints(run.checkpoints()).size() == 1);
  });
}

TEST_CASE("a visit that saves a state that is not finite gets no path") {
  // Saves in each step, as the command `save` of an attached am-repl does.
  class Saves : public train::InspectionHook {
   public:
    bool wants_visit(int64_t) override { return true; }
    bool visit(const train::Boundary& boundary) override {
      names.push_back(boundary.save().filename());
      return true;
    }
    std::vector<std::string> names;
  };
  for (const char* every : {"1", "100"}) {
    const TemporaryFolder temp;
    const config::Plan plan =
        test::parse(plan_text(float32_fsdp2(2), "max_steps = 3\non_nonfinite = \"continue\"",
                              cat("[checkpoint]\nevery = ", every, "\n")));
    const launch::StopSignal stop;
    runtime::run_ranks(2, [&](const runtime::World& world) {
      const run_folder::RunFolder run(temp.path());
      Victim victim(plan, world, run, /*step=*/3, 1);
      Saves saves;
      victim.trainer->run(stop, &saves);
      RANK_CHECK(join(saves.names, ",") == "step-1,step-2,");
    });
  }
}

TEST_CASE("parameters that an update has broken are not saved, though its norm was finite") {
  const TemporaryFolder temp;
  const std::string policy = GENERATE("stop", "skip");
  std::string text =
      plan_text(float32_fsdp2(2), cat("max_steps = 1\non_nonfinite = \"", policy, "\""));
  text.replace(text.find("1e-2"), 4, "1e39");
  const config::Plan plan = test::parse(text);
  const launch::StopSignal stop;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    const run_folder::RunFolder run(temp.path());
    Victim victim(plan, world, run, 0, 0);
    std::string said;
    try {
      victim.trainer->run(stop);
    } catch (const Error& error) {
      RANK_CHECK(error.kind() == ErrorKind::kNumeric);
      said = error.what();
    }
    RANK_CHECK(said.find("checkpoint step-1 is not written: model.embed_tokens.weight") == 0);
    RANK_CHECK(run_folder::list_checkpoints(run.checkpoints()).empty());
    RANK_CHECK(!std::filesystem::exists(run.checkpoints() / "step-1.tmp"));
  });
}

TEST_CASE("moments that overflow are not saved, though the parameters are finite") {
  const TemporaryFolder temp;
  const config::Plan plan =
      test::parse(plan_text(float32_fsdp2(2), "max_steps = 2\nmax_grad_norm = 0.0"));
  const launch::StopSignal stop;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    const run_folder::RunFolder run(temp.path());
    Victim victim(plan, world, run, /*step=*/2, 1);
    victim.value = 1e25;  // its square exceeds the range of float32
    std::string said;
    try {
      victim.trainer->run(stop);
    } catch (const Error& error) {
      said = error.what();
    }
    RANK_CHECK(said ==
               "checkpoint step-2 is not written: the optimizer state of "
               "model.layers.1.mlp.up_proj.weight on rank 1 is not finite");
    RANK_CHECK(run_folder::list_checkpoints(run.checkpoints()).empty());
  });
}

TEST_CASE("skipping ends where the parameters themselves are broken") {
  const config::Plan plan =
      test::parse(plan_text(float32_fsdp2(2), "max_steps = 2\non_nonfinite = \"skip\""));
  const TemporaryFolder temp;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    Victim victim(plan, world, run_folder::RunFolder(temp.path()), 0, 0);
    for (const auto& group : victim.trainer->model().data_parallel().groups()) {
      if (world.rank() == 1) group->trained().fill_(kNan);
    }
    const std::string said = victim.first_step_says();
    RANK_CHECK(said.find("on rank 1 is not finite, and no later step can repair it") !=
               std::string::npos);
  });
}

TEST_CASE("a loss that is not finite names the ranks that have it") {
  const config::Plan plan = test::parse(
      plan_text("[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n", "max_steps = 2"));
  const TemporaryFolder temp;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    Victim victim(plan, world, run_folder::RunFolder(temp.path()), 0, 0);
    // NaN in rank 1's parameters makes the replicas diverge: only rank 1's loss is not finite.
    for (const auto& group : victim.trainer->model().data_parallel().groups()) {
      if (world.rank() == 1) group->trained().fill_(kNan);
    }
    const std::string said = victim.first_step_says();
    RANK_CHECK(said.find("step 1: the output of model.embed_tokens in micro-batch 0 on rank 1 "
                         "(stage 0) is not finite; the loss is nan on rank 1; the gradient norm is "
                         "nan; gradients are not finite on ranks 0, 1") == 0);
  });
}

TEST_CASE("of a pipeline the stage, the unit and the micro-batch are named") {
  const config::Plan plan =
      test::parse(plan_text(float32_fsdp2(2, "pp_size = 2\n"), "max_steps = 2",
                            "[pipeline]\nschedule = \"1f1b\"\nmicrobatches = 2\n"));
  const TemporaryFolder temp;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    Victim victim(plan, world, run_folder::RunFolder(temp.path()), 0, 0);
    victim.trainer->model().for_each_owned(
        [](auto& /*group*/, size_t /*i*/, const parallel::LocalParameter& owned) {
          at::Tensor value = owned.value;
          if (owned.name == "model.layers.1.mlp.up_proj.weight") value.fill_(kNan);
        });
    const std::string said = victim.first_step_says();
    RANK_CHECK(said.find("step 1: the output of model.layers.1 in micro-batch 0 on rank 1 "
                         "(stage 1) is not finite; the loss is nan on rank 1") == 0);
  });
}

}  // namespace am
