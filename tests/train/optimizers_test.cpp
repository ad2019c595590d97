// Tests every optimizer, with parameter groups, on a whole model: training is the same under any
// layout, after resuming and after a skipped step. Also tests am-plan's prediction of the memory.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "am/base/text.h"
#include "am/config/optimizer.h"
#include "am/optim/from_plan.h"
#include "am/predict/memory/memory.h"
#include "am/predict/memory/step_units.h"
#include "am/tensor/memory_meter.h"
#include "am/tensor/meta_operators.h"
#include "am/train/dry_run.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"
#include "support/train_curve.h"

namespace am {
namespace {

using test::float32_fsdp2;

// Returns the [optimizer] section of each case.
const std::vector<std::string>& optimizers() {
  static const std::vector<std::string> all = {
      "name = \"adamw\"\nlr = 1e-2\nno_decay = [\"*norm*\"]\nweight_decay = 0.1\n",
      "name = \"adam\"\nlr = 1e-2\nno_decay = [\"*norm*\", \"*.up_proj.weight\"]\n",
      "name = \"sgd\"\nlr = 0.5\n",
      "name = \"sgd\"\nlr = 0.1\nmomentum = 0.9\nnesterov = true\nno_decay = [\"*norm*\"]\n",
      "name = \"muon\"\nlr = 1e-2\nno_decay = [\"*norm*\"]\nweight_decay = 0.1\n",
      "name = \"muon\"\nlr = 1e-2\nnesterov = false\nadjust_lr = \"match_rms_adamw\"\ngroup = [{ "
      "match = \"*.k_proj.weight\", name = \"adamw\", lr = 3e-3 }, { match = [\"*.1.*\"], "
      "weight_decay = 0.2 }]\n"};
  return all;
}

bool is_muon(const std::string& optimizer) { return optimizer.find("muon") != std::string::npos; }

std::string optimizer_plan(const std::string& optimizer, const std::string& layout,
                           const std::string& train = "max_steps = 5") {
  return cat("[model]\npath = \"loop/model\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n",
             "global_batch_size = 12\n", train, "\n[optimizer]\n", optimizer,
             "[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\n", layout);
}

std::unique_ptr<train::Trainer> trainer_of(const config::Plan& plan, const runtime::World& world,
                                           const run_folder::RunFolder& run,
                                           train::TrainerCallbacks callbacks = {}) {
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  return std::make_unique<train::Trainer>(job::make_job(plan, *config, world.size()), world, run,
                                          std::move(callbacks));
}

std::vector<at::Tensor> stored_values(train::Trainer& trainer) {
  std::vector<at::Tensor> values;
  for (const auto& group : trainer.model().data_parallel().groups()) {
    values.push_back(group->flat().clone());
  }
  return values;
}

bool same_values(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return at::equal(x, y); });
}

// Returns the parameters after one step on one rank, by name.
std::map<std::string, at::Tensor> after_a_step(const std::string& optimizer) {
  const config::Plan plan = test::parse(optimizer_plan(optimizer, float32_fsdp2(1)));
  std::map<std::string, at::Tensor> values;
  runtime::run_ranks(1, [&](const runtime::World& world) {
    const auto trainer = trainer_of(plan, world, run_folder::RunFolder("/am-no-such-run"));
    trainer->train_step(0);
    trainer->model().for_each_owned(
        [&](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
          values[owned.name] = owned.value.clone();
        });
  });
  return values;
}

}  // namespace

TEST_CASE("every layout gives one rank's curve with every optimizer") {
  const std::vector<test::LayoutCase> layouts = {
      {"fsdp2 on 3", 3, float32_fsdp2(3)},
      {"fsdp2 on 3, placed", 3,
       float32_fsdp2(3, "",
                     "shard_placement = { \"*layers.0.mlp.down_proj.weight\" = 0 }\n"
                     "ignored_params = [\"*.layers.1.self_attn.*\"]\n")},
      {"fsdp2 on 2, placed", 2,
       float32_fsdp2(2, "", "shard_placement = { \"*_proj.weight\" = 1 }\n")},
      {"tp 2", 2, float32_fsdp2(2, "tp_size = 2\n")},
      {"tp 2 x fsdp2 3, sequence parallel", 6,
       float32_fsdp2(6, "tp_size = 2\n", "sequence_parallel = true\n")},
      {"hsdp 2 x 3", 6, float32_fsdp2(6, "dp_replicate_size = 2\n")},
      {"ddp on 3", 3, "[mesh]\nworld_size = 3\n[strategy]\nname = \"ddp\"\n"},
      {"megatron_fsdp 1 on 2", 2,
       "[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\nzero_dp_strategy = 1\n"}};
  for (const std::string& optimizer : optimizers()) {
    const auto curve = [&](const std::string& layout, int64_t ranks) {
      return test::train_curve(test::parse(optimizer_plan(optimizer, layout)), ranks);
    };
    const test::Curve one = curve(float32_fsdp2(1), 1);
    CHECK(one.losses.back() < one.losses.front());
    // Muon computes in bfloat16, whose rounding occasionally differs between layouts.
    const double tolerance = is_muon(optimizer) ? 1e-3 : 1e-5;
    for (const auto& layout : layouts) {
      INFO(optimizer << layout.name);
      const test::Curve cut = curve(layout.toml, layout.ranks);
      REQUIRE(cut.losses.size() == one.losses.size());
      CHECK(cut.losses[0] == Approx(one.losses[0]).epsilon(1e-6));
      for (size_t i = 1; i < cut.losses.size(); ++i) {
        INFO("step " << i);
        CHECK(cut.losses[i] == Approx(one.losses[i]).epsilon(tolerance));
        CHECK(cut.norms[i] == Approx(one.norms[i]).epsilon(100 * tolerance));
      }
    }
  }
}

TEST_CASE("no_decay leaves the decay out of what it matches, and of nothing else") {
  const std::string name = GENERATE("adamw", "adam", "sgd", "muon");
  const std::string keys = cat("name = \"", name, "\"\nlr = 1e-2\nweight_decay = 0.5\n");
  const auto all = after_a_step(keys);
  const auto some = after_a_step(keys + "no_decay = [\"*norm*\", \"*.k_proj.weight\"]\n");
  const auto none = after_a_step(cat("name = \"", name, "\"\nlr = 1e-2\nweight_decay = 0.0\n"));
  REQUIRE(all.size() == some.size());
  for (const auto& [parameter, value] : some) {
    INFO(name << " " << parameter);
    const bool matches = parameter.find("norm") != std::string::npos ||
                         parameter.find("k_proj") != std::string::npos;
    CHECK(at::equal(value, none.at(parameter)) == matches);
    CHECK(at::equal(value, all.at(parameter)) == !matches);
  }
}

TEST_CASE("a group's options apply to what it matches, and to nothing else") {
  const std::string name = GENERATE("adamw", "adam", "sgd", "muon");
  const auto keys = [&](const char* lr, const char* decay) {
    return cat("name = \"", name, "\"\nlr = ", lr, "\nweight_decay = ", decay, "\n");
  };
  const auto usual = after_a_step(keys("1e-2", "0.5"));
  const auto own = after_a_step(keys("3e-2", "0.25"));
  const auto some = after_a_step(
      keys("1e-2", "0.5") +
      "no_decay = [\"*.k_proj.weight\"]\n"
      "group = [{ match = [\"*norm*\", \"*.k_proj.weight\"], lr = 3e-2, weight_decay = 0.25 }, "
      "{ match = \"*\" }]\n");
  for (const auto& [parameter, value] : some) {
    INFO(name << " " << parameter);
    const bool matches = parameter.find("norm") != std::string::npos ||
                         parameter.find("k_proj") != std::string::npos;
    CHECK(at::equal(value, own.at(parameter)) == matches);
    CHECK(at::equal(value, usual.at(parameter)) == !matches);
  }
}

TEST_CASE("AdamW updates the matrices that a group excludes from muon") {
  const std::string keys = "lr = 1e-2\nweight_decay = 0.5\n";
  const auto adamw = after_a_step("name = \"adamw\"\n" + keys);
  const auto some = after_a_step("name = \"muon\"\n" + keys +
                                 "group = [{ match = \"*.k_proj.weight\", name = \"adamw\" }]\n");
  for (const auto& [parameter, value] : some) {
    INFO(parameter);
    const bool by_muon = parameter.find("_proj.weight") != std::string::npos &&
                         parameter.find("k_proj") == std::string::npos;
    CHECK(at::equal(value, adamw.at(parameter)) == !by_muon);
  }
}

TEST_CASE("LoRA+ multiplies the learning rate of the matrices B") {
  const std::string adapters = "[lora]\nrank = 2\ntarget_modules = [\"q_proj\"]\n";
  const auto usual = after_a_step("lr = 1e-2\n" + adapters);
  const auto fast = after_a_step("lr = 1.6e-1\n" + adapters);
  const auto plus = after_a_step("lr = 1e-2\n" + adapters + "loraplus_lr_ratio = 16\n");
  int64_t of_b = 0;
  for (const auto& [parameter, value] : plus) {
    INFO(parameter);
    const bool is_b = parameter.find("lora_B") != std::string::npos;
    of_b += is_b ? 1 : 0;
    CHECK(at::allclose(value, (is_b ? fast : usual).at(parameter), 1e-6, 1e-9));
    if (is_b) CHECK_FALSE(at::equal(value, usual.at(parameter)));
  }
  CHECK(of_b > 0);
}

TEST_CASE("muon has a momentum of the layers' matrices, and AdamW's moments of all else") {
  const config::Plan plan = test::parse(optimizer_plan("name = \"muon\"\n", float32_fsdp2(2)));
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    const auto optimizer = optim::make_optimizer(plan, *rank.model);
    const auto& groups = rank.model->data_parallel().groups();
    for (size_t g = 0; g < groups.size(); ++g) {
      for (size_t i = 0; i < groups[g]->owned().size(); ++i) {
        const std::string& name = groups[g]->owned()[i].name;
        const auto states = optim::parameter_state(*optimizer, *rank.model, g, i);
        const bool matrix = name.find("_proj.weight") != std::string::npos;
        RANK_CHECK(states.size() == (matrix ? 1 : 2));
        RANK_CHECK(states[0].name == (matrix ? "momentum_buffer" : "exp_avg"));
        RANK_CHECK(states[0].value.sizes() == groups[g]->owned()[i].value.sizes());
      }
    }
  });
}

TEST_CASE("a resumed run goes on to the bit with every optimizer, and under another layout") {
  for (const std::string& optimizer : optimizers()) {
    INFO(optimizer);
    const TemporaryFolder temp;
    const run_folder::RunFolder run(temp.path());
    const std::string steps = "max_steps = 4";
    const config::Plan plan = test::parse(optimizer_plan(optimizer, float32_fsdp2(3), steps));
    double loss = 0.0;
    runtime::run_ranks(3, [&](const runtime::World& world) {
      const auto trainer = trainer_of(plan, world, run);
      for (const int64_t step : {0, 1}) trainer->train_step(step);
      trainer->save(2);
      for (const int64_t step : {2, 3}) trainer->train_step(step);
      const auto resumed = trainer_of(plan, world, run);
      RANK_CHECK(resumed->first_step() == 2);
      observe::StepMetrics last;
      for (const int64_t step : {2, 3}) last = resumed->train_step(step);
      RANK_CHECK(same_values(stored_values(*trainer), stored_values(*resumed)));
      if (world.rank() == 0) loss = last.loss;
    });
    const config::Plan other =
        test::parse(optimizer_plan(optimizer, float32_fsdp2(2, "tp_size = 2\n"), steps));
    runtime::run_ranks(2, [&](const runtime::World& world) {
      const auto resumed = trainer_of(other, world, run);
      RANK_CHECK(resumed->first_step() == 2);
      resumed->train_step(2);
      const double there = resumed->train_step(3).loss;
      RANK_CHECK(std::abs(there - loss) < (is_muon(optimizer) ? 1e-3 : 1e-5) * loss);
    });
  }
}

TEST_CASE("a skipped step leaves parameters, states and the number of steps with every optimizer") {
  for (const std::string& optimizer : optimizers()) {
    INFO(optimizer);
    const config::Plan plan = test::parse(
        optimizer_plan(optimizer, float32_fsdp2(2), "max_steps = 3\non_nonfinite = \"skip\""));
    const TemporaryFolder temp;
    runtime::run_ranks(2, [&](const runtime::World& world) {
      train::Trainer* victim = nullptr;
      int64_t backwards = 0;
      train::TrainerCallbacks callbacks;
      callbacks.phase = [&](const char* phase) {
        if (std::string_view(phase) != "backward" || ++backwards != 2 || world.rank() != 1) return;
        victim->model().data_parallel().groups()[1]->flat_grad().fill_(
            std::numeric_limits<float>::quiet_NaN());
      };
      const run_folder::RunFolder run(temp.path());
      const auto trainer = trainer_of(plan, world, run, callbacks);
      victim = trainer.get();
      trainer->train_step(0);
      const auto before = stored_values(*trainer);
      RANK_CHECK(trainer->train_step(1).skipped_steps == 1);
      RANK_CHECK(same_values(stored_values(*trainer), before));
      // A trainer that never ran the skipped step ends with equal values. The optimizer states and
      // step counts are therefore unchanged by the skipped step.
      RANK_CHECK(trainer->train_step(2).skipped_steps == 1);
      const auto other = trainer_of(plan, world, run);
      for (const int64_t step : {0, 2}) other->train_step(step);
      RANK_CHECK(same_values(stored_values(*trainer), stored_values(*other)));
    });
  }
}

TEST_CASE("am-plan's states and peak are a dry run's with every optimizer") {
  const std::vector<test::LayoutCase> layouts = {
      {"one rank", 1, "[mesh]\nworld_size = 1\n[strategy]\nbackend = \"gloo\"\n"},
      {"fsdp2 on 4", 4, "[mesh]\nworld_size = 4\n[strategy]\nbackend = \"gloo\"\n"},
      {"tp 2 x fsdp2 2", 4,
       "[mesh]\nworld_size = 4\ntp_size = 2\n[strategy]\nbackend = \"gloo\"\n"},
      {"ddp on 2", 2, "[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\nbackend = \"gloo\"\n"}};
  for (const std::string& optimizer : optimizers()) {
    for (const auto& layout : layouts) {
      INFO(optimizer << layout.name);
      const config::Plan plan = test::parse(
          cat("[model]\npath = \"table_large\"\n[train]\nseq_len = 256\nmicro_batch_size = 4\n",
              "[optimizer]\n", optimizer, "[data]\nkind = \"synthetic\"\n", layout.toml));
      Diagnostics found;
      const auto config = model::load_config(plan.resolve(plan.model.path), found);
      const job::Job job = job::make_job(plan, *config, layout.ranks);
      const train::DryRun dry = train::dry_run(job, 0);
      const auto predicted = predict::estimate_memory(plan, *config, job.layout, 0).components;
      CHECK(predicted.optimizer == dry.peak.of(tensor::TensorUse::kOptimizer));
      CHECK(static_cast<double>(predicted.total()) ==
            Approx(static_cast<double>(dry.peak.total())).epsilon(0.02));
    }
  }
}

TEST_CASE("am-plan knows what an update by muon takes besides the states") {
  const std::string tp = GENERATE("", "tp_size = 2\n");
  const int64_t ranks = GENERATE(2, 4, 8);
  INFO(ranks << " ranks, " << tp);
  const config::Plan plan = test::parse(cat(
      "[model]\npath = \"table_large\"\n[optimizer]\nname = \"muon\"\n[mesh]\nworld_size = ", ranks,
      "\n", tp, "[strategy]\nbackend = \"gloo\"\n"));
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  const job::Job job = job::make_job(plan, *config, ranks);
  tensor::register_meta_operators();
  // Maximum over the ranks, because Muon computes the updates of different matrices on different
  // ranks.
  int64_t most = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const runtime::DeviceMesh mesh(runtime::World::fake(rank, ranks), job.layout.mesh,
                                   c10::Device(c10::kMeta));
    const auto model = parallel::ParallelModel::build(plan, job.model, job.layout, mesh);
    const auto optimizer = optim::make_optimizer(plan, *model);
    std::vector<at::Tensor> gradients;
    for (const auto& group : model->data_parallel().groups()) {
      gradients.push_back(at::zeros_like(group->trained()));
    }
    const tensor::MemoryMeter meter;
    optimizer->step(gradients, 1e-3);
    most = std::max(most, meter.peak().total());
  }
  double predicted = 0.0;
  const auto context = predict::activation_context(plan, job.layout);
  for (const auto& unit : predict::measure_units(plan, *config, job.layout, 0, context).units) {
    predicted = std::max(predicted, unit.orthogonalizing);
  }
  CHECK(predicted == Approx(static_cast<double>(most)).epsilon(0.02));
}

}  // namespace am
