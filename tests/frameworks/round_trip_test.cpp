// Exports plans to each framework, imports the files, and compares the plans and their layouts. The
// plans are all example plans, and random ones.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "am/job/plan_difference.h"
#include "frameworks/exchange_support.h"
#include "support/folders.h"

using namespace am;
using namespace am::frameworks;
using namespace am::job;
using namespace am::layout;
using namespace am::rules;
using am::test::imported;
using am::test::lost_keys;

namespace {

bool is_layout_key(const std::string& key) {
  return starts_with(key, "mesh.") || starts_with(key, "pipeline.") || key == "strategy.name" ||
         key == "strategy.tp_plan" || starts_with(key, "strategy.reshard") ||
         key == "strategy.ignored_params" || starts_with(key, "strategy.shard_placement");
}

bool lies_where(const ParameterLayout& a, const ParameterLayout& b) {
  return a.name == b.name && a.tp_dim == b.tp_dim && a.fsdp == b.fsdp && a.stage == b.stage;
}

// Checks that both layouts have equal meshes, stage owners and placements of parameters.
void check_equal_layouts(const Layout& a, const Layout& b) {
  CHECK(a.mesh.sizes() == b.mesh.sizes());
  CHECK(a.stage_owners == b.stage_owners);
  REQUIRE(a.parameters.size() == b.parameters.size());
  const auto [apart, _] =
      std::mismatch(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), lies_where);
  if (apart != a.parameters.end()) FAIL("another place: " << apart->name);
}

// Exports a plan, imports the result, and compares the two plans, except for keys that the export
// reports as lost. Compares the layouts too, if no lost key changes the layout. Returns the export.
Exported round_trip(const Framework& to, const test::ValidPlan& of, bool flags = false) {
  CAPTURE(to.name, flags, config::to_toml(of.plan));
  const Exported out = export_plan(to, {of.plan, of.model, of.layout, flags});
  CAPTURE(out.text);
  const std::set<std::string> lost = lost_keys(out);
  CHECK(lost.size() == out.lost.size());
  for (const Lost& item : out.lost) CHECK_FALSE(item.why.empty());

  Imported back = imported(to, out.text);
  back.plan.model.path = of.plan.model.path;
  for (const auto& item :
       differences(canonical(of.plan, of.model), canonical(back.plan, of.model))) {
    CAPTURE(item.key, item.a.dump(), item.b.dump());
    CHECK(lost.count(item.key) == 1);
  }
  if (std::any_of(lost.begin(), lost.end(), is_layout_key) &&
      lost != std::set<std::string>{"mesh.ranks_per_node"}) {
    return out;
  }
  // The TOML text of the imported plan describes the layout of the original plan.
  Diagnostics found;
  // If the export loses train.seq_len, the check uses the original value, because the rules compare
  // train.seq_len with the model's limit.
  std::vector<config::Override> given;
  if (lost.count("train.seq_len") == 1)
    given.push_back({cat("train.seq_len=", of.plan.train.seq_len)});
  const auto plan = config::parse_plan(back.toml(), of.plan.file, given, found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(plan.has_value());
  const auto checked = check(*plan, 0, found);
  REQUIRE(checked.layout.has_value());
  CHECK(found.ok());
  check_equal_layouts(of.layout, *checked.layout);
  return out;
}

// Returns whether the framework's file can represent this key of [optimizer]. The frameworks' users
// create parameter groups and Muon in code, torchtitan has no SGD, and Megatron's Adam is AdamW.
bool optimizer_must_survive(std::string_view framework, std::string_view key,
                            const config::OptimizerSection& optimizer) {
  if (key == "lr" || key == "weight_decay") return true;
  const bool sgd = optimizer.name == "sgd" && framework != "torchtitan";
  if (key == "betas" || key == "eps") return optimizer.name != "sgd";
  if (key == "momentum") return sgd;
  if (key == "nesterov") return sgd && framework != "megatron";
  return key == "name" && (sgd || optimizer.name == "adamw" ||
                           (optimizer.name == "adam" && framework != "megatron"));
}

// Returns whether the framework's file can represent the plan's value of this key. If so, an export
// must not lose the key.
bool must_survive(std::string_view framework, const std::string& key, const config::Plan& plan) {
  const bool ddp = std::holds_alternative<config::DDPConfig>(plan.strategy);
  if (key == "mesh.ranks_per_node") {  // torchrun needs the same number of ranks on all nodes
    return framework == "megatron" && plan.mesh.world_size % plan.mesh.ranks_per_node == 0;
  }
  if (starts_with(key, "mesh.")) {
    if (framework == "megatron") return key != "mesh.dp_replicate_size";
    if (framework == "accelerate") return plan.mesh.pp_size == 1;
    if (framework == "deepspeed") {
      return plan.mesh.pp_size == 1 && plan.mesh.cp_size == 1 && key != "mesh.dp_replicate_size";
    }
    return framework != "torchtitan" || !ddp || key != "mesh.dp_replicate_size";
  }
  if (framework == "accelerate") return key == "strategy.name" && ddp;
  if (key == "train.global_batch_size") return framework != "deepspeed";
  if (key == "train.micro_batch_size") return true;
  if (starts_with(key, "optimizer.")) {
    return optimizer_must_survive(framework, std::string_view(key).substr(10), plan.optimizer);
  }
  if (framework == "deepspeed") {
    const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&plan.strategy);
    return key == "strategy.zero_dp_strategy" && megatron != nullptr &&
           megatron->zero_dp_strategy > 0;
  }
  if (key == "train.seq_len" || key == "train.max_steps" || key == "train.max_grad_norm" ||
      key == "pipeline.split_points" || key == "pipeline.virtual_stages") {
    return true;
  }
  if (framework == "nemo-automodel") {
    return starts_with(key, "pipeline.") || key == "strategy.name" ||
           starts_with(key, "strategy.mp_policy") || starts_with(key, "scheduler.");
  }
  return framework == "torchtitan" && starts_with(key, "pipeline.");
}

}  // namespace

TEST_CASE("a pipeline's own schedule and its balance go to frameworks that have such",
          "[exchange]") {
  const config::Plan plan = test::plan_of(
      cat("[mesh]\nworld_size = 2\npp_size = 2\n[pipeline]\nschedule = \"", test::kSourceFolder,
          "/tests/data/schedules/own.csv\"\nvirtual_stages = 2\nbalance = \"cost\"\n"
          "[train]\nglobal_batch_size = 4\n[strategy]\nbackend = \"gloo\"\n"),
      "gemma-2-2b");
  const model::ModelConfig model = test::model_of("gemma-2-2b");
  const test::ValidPlan valid{plan, model, test::layout_of(plan, model)};
  for (const char* name : {"torchtitan", "nemo-automodel"}) {
    CAPTURE(name);
    const Exported out = round_trip(*find_framework(name), valid);
    CHECK(out.text.find("schedules/own.csv") != std::string::npos);
    CHECK(lost_keys(out).count("pipeline.schedule") == 0);
  }
}

TEST_CASE("adapters go to NeMo AutoModel and come back", "[exchange]") {
  for (const char* targets : {"[\"all-linear\"]", "[\"q_proj\", \"model.layers.0.*.up_proj\"]"}) {
    const config::Plan plan = test::plan_of(cat(
        "[mesh]\nworld_size = 2\n[lora]\nrank = 4\nalpha = 6\ndropout = 0.25\ntarget_modules = ",
        targets, "\n"));
    const model::ModelConfig model = test::model_of("llama-3.1-8b");
    const test::ValidPlan valid{plan, model, test::layout_of(plan, model)};
    for (const std::string& key : lost_keys(round_trip(*find_framework("nemo-automodel"), valid))) {
      CHECK_FALSE(starts_with(key, "lora."));
    }
  }
}

TEST_CASE("the strategy megatron goes to Megatron and comes back", "[exchange]") {
  struct Case {
    const char* model;
    const char* plan;
  };
  const Case cases[] = {
      {"llama-3.1-8b", "[mesh]|world_size = 16|[strategy]|name = \"megatron\""},
      {"llama-3.1-8b",
       "[mesh]|world_size = 64|tp_size = 2|pp_size = 4|dp_replicate_size = 2|[pipeline]|"
       "schedule = \"interleaved_1f1b\"|virtual_stages = 2|[train]|global_batch_size = 64|"
       "[strategy]|name = \"megatron\"|sequence_parallel = true|grad_reduce_in_fp32 = false|"
       "recompute_num_layers = 2"},
      {"llama-3.1-8b",
       "[mesh]|world_size = 8|pp_size = 8|[train]|global_batch_size = 2|[strategy]|"
       "name = \"megatron\"|zero = 0|recompute_num_layers = 1|recompute_method = \"block\"|"
       "overlap_grad_reduce = false|overlap_param_gather = false"},
      {"llama-3.1-8b",
       "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|params_dtype = \"float16\"|"
       "recompute_modules = [\"layernorm\"]"},
      {"llama-3.1-8b",
       "[mesh]|world_size = 8|[strategy]|name = \"megatron\"|params_dtype = \"float32\"|"
       "grad_reduce_in_fp32 = false|activation_checkpointing = true"},
      {"mixtral-8x7b-v0.1",
       "[mesh]|world_size = 32|tp_size = 4|ep_size = 8|[strategy]|name = \"megatron\"|etp_size = 1|"
       "sequence_parallel = true|recompute_modules = [\"core_attn\", \"moe_act\"]"},
  };
  const Framework& to = *find_framework("megatron");
  for (const Case& one : cases) {
    const config::Plan plan = test::plan_of(test::toml(one.plan), one.model);
    const model::ModelConfig model = test::model_of(one.model);
    const Exported out = round_trip(to, {plan, model, test::layout_of(plan, model)});
    for (const Lost& item : out.lost) {
      CHECK_FALSE(starts_with(item.key, "strategy."));
      CHECK_FALSE(starts_with(item.key, "mesh."));
      CHECK_FALSE(starts_with(item.key, "pipeline."));
    }
    config::Plan back = imported(to, out.text).plan;
    back.model.path = plan.model.path;
    CHECK(export_plan(to, {back, model, test::layout_of(back, model)}).text == out.text);
    // Exports to all other frameworks report the strategy as lost.
    for (const Framework& other : all_frameworks()) {
      if (&other == &to) continue;
      INFO(other.name);
      CHECK(lost_keys(export_plan(other, {plan, model, test::layout_of(plan, model)}))
                .count("strategy.name") == 1);
    }
  }
  const config::Plan plan = test::plan_of(
      "[mesh]\nworld_size = 8\npp_size = 2\n[strategy]\nname = \"megatron\"\nzero = 2\n");
  const model::ModelConfig model = test::model_of("llama-3.1-8b");
  CHECK(lost_keys(export_plan(to, {plan, model, test::layout_of(plan, model)}))
            .count("strategy.zero") == 1);
}

TEST_CASE("every example plan comes back from every framework", "[exchange]") {
  int plans = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(cat(test::kSourceFolder, "/plans"))) {
    if (entry.path().extension() != ".toml") continue;
    CAPTURE(entry.path());
    Diagnostics found;
    auto file = check_file(entry.path(), {}, 0, found);
    REQUIRE(file.checked.layout.has_value());
    const test::ValidPlan plan{*file.plan, *file.checked.model, *file.checked.layout};
    for (const Framework& to : all_frameworks()) {
      round_trip(to, plan);
      if (to.has_flags) round_trip(to, plan, true);
    }
    ++plans;
  }
  CHECK(plans >= 7);
}

TEST_CASE("500 random layouts come back from every framework", "[exchange]") {
  test::RandomPlans plans(20250101);
  for (int i = 0; i < 500; ++i) {
    const test::ValidPlan plan = plans.next();
    for (const Framework& to : all_frameworks()) {
      for (const Lost& item : round_trip(to, plan).lost) {
        if (!must_survive(to.name, item.key, plan.plan)) continue;
        FAIL_CHECK(to.name << " loses " << item.key << " = " << item.value << ": " << item.why
                           << "\n"
                           << config::to_toml(plan.plan));
      }
    }
  }
}
