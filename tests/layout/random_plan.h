// Random plans that pass all checks of am-plan, for tests of properties of every valid plan.
#pragma once

#include <array>
#include <random>

#include "am/layout/layout.h"
#include "am/rules/check.h"
#include "layout/plan_text.h"
#include "support/folders.h"

namespace am::test {

struct ValidPlan {
  config::Plan plan;
  model::ModelConfig model;
  layout::Layout layout;
};

class RandomPlans {
 public:
  // If `optimizers` is false, all plans use AdamW; the other keys depend only on the seed.
  explicit RandomPlans(uint32_t seed, bool optimizers = true)
      : random_(seed), of_optimizers_(seed), optimizers_(optimizers) {}

  ValidPlan next() {
    for (;;) {
      config::Plan plan = draw();
      draw_optimizer(plan);
      Diagnostics found;
      auto checked = rules::check(plan, 0, found);
      if (!found.ok() || !checked.layout.has_value()) continue;
      return {std::move(plan), *std::move(checked.model), *std::move(checked.layout)};
    }
  }

 private:
  template <typename T>
  T pick(std::initializer_list<T> values) {
    std::uniform_int_distribution<size_t> index(0, values.size() - 1);
    return *(values.begin() + index(random_));
  }
  bool chance() { return pick({true, false}); }

  config::Plan draw() {
    const std::string strategy =
        pick<std::string>({"fsdp2", "fsdp2", "fsdp2", "megatron_fsdp", "ddp"});
    config::Plan plan = default_plan(strategy);
    plan.file = "plan.toml";
    plan.model.path =
        cat(kSourceFolder, "/plans/models/",
            pick<std::string>({"llama-3.1-8b", "qwen3-8b", "llama-3.2-1b", "mixtral-8x7b-v0.1"}));
    plan.model.dtype = pick<std::string>({"float32", "float32", "bfloat16"});
    plan.model.seed = pick<int64_t>({0, 7});
    plan.mesh.tp_size = strategy == "ddp" ? 1 : pick<int64_t>({1, 2, 4, 8});
    plan.mesh.cp_size = strategy == "ddp" ? 1 : pick<int64_t>({1, 1, 2});
    plan.mesh.pp_size = strategy == "fsdp2" ? pick<int64_t>({1, 1, 2, 4}) : 1;
    const int64_t dp = pick<int64_t>({1, 2, 4, 6, 8});
    plan.mesh.world_size = dp * plan.mesh.tp_size * plan.mesh.cp_size * plan.mesh.pp_size;
    if (chance()) plan.mesh.dp_size = dp;
    if (strategy == "fsdp2") plan.mesh.dp_replicate_size = pick<int64_t>({1, 1, 2});
    plan.mesh.ranks_per_node = pick<int64_t>({4, 8});
    draw_pipeline(plan);
    draw_training(plan, dp);
    if (auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) draw_fsdp2(*fsdp2);
    if (auto* megatron = std::get_if<config::MegatronFSDPConfig>(&plan.strategy)) {
      megatron->zero_dp_strategy = pick<int64_t>({0, 1, 2, 3});
      megatron->grad_reduce_in_fp32 = chance();
      megatron->activation_checkpointing = chance();
    }
    return plan;
  }

  static config::Plan default_plan(const std::string& strategy) {
    Diagnostics found;
    auto plan =
        config::parse_plan(cat("[model]\npath = \".\"\n[strategy]\nname = \"", strategy, "\"\n"),
                           "plan.toml", {}, found);
    REQUIRE(plan.has_value());
    plan->spans.clear();
    return *plan;
  }

  void draw_pipeline(config::Plan& plan) {
    if (plan.mesh.pp_size == 1) return;
    plan.pipeline.schedule =
        pick<std::string>({"1f1b", "gpipe", "interleaved_1f1b", "looped_bfs",
                           "interleaved_zero_bubble", "zbv_zero_bubble", "dual_pipe_v"});
    plan.pipeline.virtual_stages = pick<int64_t>({1, 2, 2, 4});
    plan.pipeline.microbatches = plan.mesh.pp_size * pick<int64_t>({0, 1, 2, 4});
    if (plan.pipeline.microbatches == 4 * plan.mesh.pp_size) plan.pipeline.balance = "cost";
    if (plan.pipeline.virtual_stages != 1 || chance()) return;
    for (int64_t i = 1; i < plan.mesh.pp_size; ++i) plan.pipeline.split_points.push_back(3 * i + 1);
  }

  void draw_training(config::Plan& plan, int64_t dp) {
    plan.train.seq_len = pick<int64_t>({1024, 4096});
    plan.train.micro_batch_size = pick<int64_t>({1, 2, 4});
    const int64_t rounds = plan.pipeline.microbatches > 0 ? plan.pipeline.microbatches : 8;
    plan.train.global_batch_size =
        dp * plan.train.micro_batch_size * rounds * pick<int64_t>({1, 2, 3});
    plan.train.max_steps = pick<int64_t>({100, 1000});
    plan.train.max_grad_norm = pick({0.0, 1.0, 0.3});
    plan.train.seed = pick<int64_t>({0, 5});
    if (pick({true, false, false})) plan.model.freeze_params = {"model.embed_tokens.*"};
    plan.optimizer.lr = pick({1e-3, 3e-4, 1.5e-4});
    plan.optimizer.betas = {0.9, pick({0.95, 0.999})};
    plan.optimizer.weight_decay = pick({0.0, 0.1});
    plan.scheduler.name = pick<std::string>({"constant", "cosine", "linear", "wsd"});
    plan.scheduler.warmup_steps = pick<int64_t>({0, 10});
    if (plan.scheduler.name == "wsd") plan.scheduler.decay_steps = 50;
    if (plan.scheduler.name != "constant") plan.scheduler.min_lr = pick({0.0, 3e-5});
    plan.checkpoint.every = pick<int64_t>({0, 10});
  }

  void draw_optimizer(config::Plan& plan) {
    if (!optimizers_) return;
    const auto one_of = [&](unsigned count) { return of_optimizers_() % count; };
    config::OptimizerSection& optimizer = plan.optimizer;
    const std::array<const char*, 6> names = {"adamw", "adamw", "adamw", "adam", "sgd", "muon"};
    optimizer.name = names.at(one_of(6));
    if (optimizer.name == "sgd" && one_of(2) == 0) {
      optimizer.momentum = 0.9;
      optimizer.nesterov = one_of(2) == 0;
    }
    if (one_of(3) == 0) optimizer.no_decay = {"*norm*"};
  }

  void draw_fsdp2(config::FSDP2Config& fsdp2) {
    fsdp2.sequence_parallel = chance();
    fsdp2.activation_checkpointing =
        pick({config::ActivationCheckpointing::kOff, config::ActivationCheckpointing::kFull,
              config::ActivationCheckpointing::kSelective, config::ActivationCheckpointing::kMlp});
    fsdp2.activation_checkpointing_every = pick<int64_t>({1, 1, 2});
    const std::string dtype = pick<std::string>({"bfloat16", "float32"});
    fsdp2.mp_policy.param_dtype = fsdp2.mp_policy.output_dtype = dtype;
    fsdp2.mp_policy.reduce_dtype = pick<std::string>({"float32", dtype});
    if (chance()) fsdp2.reshard_after_forward = chance();
    if (pick({true, false, false})) fsdp2.offload_policy.emplace();
    fsdp2.enable_compile = chance();
    if (pick({true, false, false})) fsdp2.shard_placement = {{"model.layers.0.mlp.*", 0}};
    if (pick({true, false, false})) fsdp2.ignored_params = {"model.norm.*"};
  }

  std::mt19937 random_;
  std::mt19937 of_optimizers_;
  bool optimizers_;
};

}  // namespace am::test
