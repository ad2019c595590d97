// Tests the selection of strategies by name: built-in strategies, strategies that a program
// registers, and strategies of plugins. Also tests import_class_from_path() with valid and invalid
// class names.
#include "am/parallel/strategy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "am/base/error.h"
#include "am/compat/imports.h"
#include "am/layout/tp_plugin.h"
#include "am/model/layer_class.h"
#include "am/train/trainer.h"
#include "support/folders.h"
#include "support/model_step.h"
#include "support/rank_check.h"
#include "support/temporary_folder.h"

namespace am::parallel {

namespace {

const std::string kPlugins = cat(test::kPluginFolder, "/torch_strategy.so:");

Parallelized keep_whole(const StrategyInput& input) {
  Parallelized made;
  made.vocabulary_slice = prepare_decoder(input);
  DataParallelOptions options;
  options.reshard_after_forward.assign(input.layout.units.size(), false);
  made.data_parallel = apply_fsdp_sharding_recursively(input, std::move(options));
  return made;
}

// A strategy with default options, which frees units after forward by FSDP2's rule.
Parallelized by_rule(const StrategyInput& input) {
  Parallelized made;
  made.vocabulary_slice = prepare_decoder(input);
  made.data_parallel = apply_fsdp_sharding_recursively(input, {});
  return made;
}

config::Plan plan() {
  return test::parse(
      "[model]\npath = \"hf/llama\"\n[train]\nseq_len = 16\n[mesh]\nworld_size = 2\n[strategy]\n"
      "name = \"fsdp2\"\nmp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", "
      "output_dtype = \"float32\" }\n");
}

// Returns the names of the units that stay gathered after a forward pass under `strategy`, on rank
// 0.
std::vector<std::string> gathered_after_forward(const std::string& strategy) {
  std::vector<std::string> names;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan(), world);
    auto model = ParallelModel::build(plan(), rank.config, rank.layout, rank.mesh, strategy);
    const at::NoGradGuard no_grad;
    model->forward(at::zeros({1, 16}, at::kLong));
    if (world.rank() != 0) return;
    for (const auto& group : model->data_parallel().groups()) {
      if (group->is_unsharded()) names.push_back(group->name());
    }
  });
  return names;
}

test::StepResult step_on_rank_0(const std::string& strategy) {
  test::StepResult result;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    test::RankModel rank(plan(), world);
    auto model = ParallelModel::build(plan(), rank.config, rank.layout, rank.mesh, strategy);
    auto mine = test::step_of(*model, "llama");
    if (world.rank() == 0) result = std::move(mine);
  });
  return result;
}

std::pair<std::string, std::string> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.what(), error.hint()};
  }
  return {};
}

}  // namespace

TEST_CASE("units: all layers but the last are freed after forward, what backward needs first stays",
          "[parity]") {
  register_parallel_strategy("test by rule", by_rule);
  const auto model = test::parse(
      "[model]\npath = \"hf/llama\"\n[train]\nseq_len = 16\n[mesh]\n"
      "world_size = 1\n");
  test::RankModel rank(model, runtime::World::single());
  const auto& units = rank.layout.units;
  const std::string last = cat("model.layers.", rank.config.num_hidden_layers - 1);
  REQUIRE(units.size() == static_cast<size_t>(rank.config.num_hidden_layers) + 3);
  CHECK(gathered_after_forward("test by rule") == std::vector<std::string>{last, "lm_head", ""});
  CHECK(gathered_after_forward("fsdp2") == gathered_after_forward("test by rule"));
}

TEST_CASE("a strategy of one's own runs by its name, and so does a plugin's") {
  register_parallel_strategy("test whole", keep_whole);
  const auto names = parallel_strategy_names();
  CHECK(std::vector<std::string>(names.begin(), names.begin() + 3) ==
        std::vector<std::string>{"fsdp2", "megatron_fsdp", "ddp"});
  CHECK(std::find(names.begin(), names.end(), "test whole") != names.end());
  const size_t all = gathered_after_forward("test whole").size();
  CHECK(all > gathered_after_forward("fsdp2").size());
  CHECK(gathered_after_forward(kPlugins + "whole").size() == all);
  const auto wanted = step_on_rank_0("");
  REQUIRE(wanted.size() > 3);
  CHECK(test::same_bits(step_on_rank_0("test whole"), wanted));
  CHECK(test::same_bits(step_on_rank_0(kPlugins + "whole"), wanted));
}

TEST_CASE("a trainer trains under a strategy of one's own, on the plan's curve") {
  register_parallel_strategy("test trained", keep_whole);
  const config::Plan plan = test::parse(
      "[model]\npath = \"loop/model\"\n[train]\nseq_len = 16\nglobal_batch_size = 4\n"
      "max_steps = 3\n[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\n[mesh]\n"
      "world_size = 2\n[strategy]\nname = \"fsdp2\"\nmp_policy = { param_dtype = \"float32\", "
      "reduce_dtype = \"float32\", output_dtype = \"float32\" }\n");
  const TemporaryFolder folder;
  std::map<std::string, std::vector<double>> losses;
  for (const std::string name : {"", "test trained"}) {
    runtime::run_ranks(2, [&](const runtime::World& world) {
      Diagnostics found;
      const auto config = model::load_config(plan.resolve(plan.model.path), found);
      train::Trainer trainer(job::make_job(plan, *config, world.size()), world,
                             run_folder::RunFolder(folder / "no-such-run"), {}, name);
      for (int64_t step = 0; step < plan.train.max_steps; ++step) {
        const double loss = trainer.train_step(step).loss;
        if (world.rank() == 0) losses[name].push_back(loss);
      }
      // The custom strategy never frees units, so all units are gathered after a forward pass.
      const at::NoGradGuard no_grad;
      trainer.model().forward(at::zeros({1, 16}, at::TensorOptions(at::kLong)));
      const auto& groups = trainer.model().data_parallel().groups();
      const bool whole = std::all_of(groups.begin(), groups.end(),
                                     [](const auto& group) { return group->is_unsharded(); });
      RANK_CHECK(whole == !name.empty());
    });
  }
  CHECK(losses[""].size() == 3);
  CHECK(losses[""] == losses["test trained"]);
  CHECK(losses[""].front() != losses[""].back());
}

TEST_CASE("a name is required, and unique") {
  const auto [none, how] = error_of([] { register_parallel_strategy(" ", keep_whole); });
  CHECK_THAT(none, Catch::Contains("needs a name"));
  CHECK_THAT(how, Catch::Contains("register_parallel_strategy("));
  CHECK_THAT(error_of([] { register_parallel_strategy("test none", nullptr); }).first,
             Catch::Contains("no function"));
  register_parallel_strategy("test twice", keep_whole);
  for (const char* taken : {"test twice", "ddp"}) {
    CHECK_THAT(error_of([&] { register_parallel_strategy(taken, keep_whole); }).first,
               Catch::Contains(cat("\"", taken, "\" is registered already")));
  }
  CHECK_THAT(error_of([] { register_parallel_strategy("lib.so:x", keep_whole); }).first,
             Catch::Contains("plugin"));
  const auto [unknown, legal] = error_of([] { find_parallel_strategy("fsdp3"); });
  CHECK_THAT(unknown, Catch::Contains("\"fsdp3\""));
  CHECK_THAT(legal, Catch::Contains("did you mean \"fsdp2\"?") && Catch::Contains("test twice"));
}

TEST_CASE("a plugin that is none, or of another automesh, says so") {
  CHECK_THAT(error_of([] { find_parallel_strategy(kPlugins + "nothing"); }).first,
             Catch::Contains("nothing() returned no strategy"));
  CHECK_THAT(error_of([] { find_parallel_strategy(kPlugins + "old"); }).first,
             Catch::Contains("was built for automesh 0.0.1, but this is automesh " AM_VERSION));
  CHECK_THAT(error_of([] { find_parallel_strategy(kPlugins + "absent"); }).first,
             Catch::Contains("no function \"absent\""));
  test::RankModel rank(test::parse("[model]\npath = \"hf/llama\"\n[train]\nseq_len = 16\n[mesh]\n"
                                   "world_size = 1\n"),
                       runtime::World::single());
  CHECK_THAT(error_of([&] {
               ParallelModel::build(plan(), rank.config, rank.layout, rank.mesh,
                                    kPlugins + "empty");
             }).first,
             Catch::Contains("did not set up data parallelism"));
}

TEST_CASE("import_class_from_path: layers, strategies and plugins", "[parity]") {
  const std::string path = "transformers.models.qwen3.modeling_qwen3.Qwen3DecoderLayer";
  for (const std::string& name : {path, std::string("Qwen3DecoderLayer")}) {
    const auto layer = std::get<compat::ImportedLayer>(compat::import_class_from_path(name));
    CHECK(layer.family->model_type == "qwen3");
  }
  const auto strategy =
      std::get<compat::ImportedStrategy>(compat::import_class_from_path("megatron_fsdp"));
  CHECK(strategy.name == "megatron_fsdp");
  CHECK(static_cast<bool>(strategy.strategy));
  const auto symbol = std::get<compat::ImportedSymbol>(
      compat::import_class_from_path(cat(test::kPluginFolder, "/tp_plan.so:good")));
  CHECK_THAT(reinterpret_cast<const char* (*)()>(symbol.address)(), Catch::Contains("down_proj"));
  CHECK(symbol.symbol == "good");
  const auto [what, help] = error_of([] { compat::import_class_from_path("LamaDecoderLayer"); });
  CHECK_THAT(what, Catch::Contains("\"LamaDecoderLayer\""));
  CHECK_THAT(help, Catch::Contains("did you mean \"LlamaDecoderLayer\"?"));
}

TEST_CASE("import_classes_from_paths reports every failure", "[parity]") {
  const std::vector<std::string> good = {"LlamaDecoderLayer", "fsdp2"};
  CHECK(compat::import_classes_from_paths(good).size() == 2);
  CHECK(compat::import_classes_from_paths({}).empty());
  const std::vector<std::string> bad = {"LlamaDecoderLayer", "nodots", "torch.nn.Linear",
                                        "/nowhere/libmine.so:x"};
  const auto [what, help] = error_of([&] { compat::import_classes_from_paths(bad); });
  CHECK_THAT(what, Catch::Contains("3 of 4 classes cannot be imported") &&
                       Catch::Contains("\"nodots\": ") &&
                       Catch::Contains("\"torch.nn.Linear\": ") &&
                       Catch::Contains("/nowhere/libmine.so: cannot load this plugin"));
  CHECK_THAT(help, Catch::Contains("legal: "));
}

}  // namespace am::parallel
