#include "am/layout/layout.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "am/layout/stages.h"
#include "layout/plan_text.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace {

using am::Diagnostics;
using am::Shape;
using am::layout::Layout;
using am::layout::ParameterLayout;
using am::mesh::Box;
using am::mesh::Placement;
using am::test::ids;
using am::test::layout_of;
using am::test::model_of;
using am::test::plan_of;
using Ids = std::vector<std::string>;
using Placements = std::vector<std::pair<std::string, Placement>>;

const ParameterLayout& at(const Layout& layout, const std::string& name) {
  for (const auto& parameter : layout.parameters) {
    if (parameter.name == name) return parameter;
  }
  FAIL("no parameter " << name);
  return layout.parameters.front();
}

TEST_CASE("tp and fsdp cut the same dim, tp first") {
  const Layout layout = layout_of("[mesh]\nworld_size = 4\ntp_size = 2\n");
  const auto& query = at(layout, "model.layers.0.self_attn.q_proj.weight");
  CHECK(query.placements(layout.mesh) ==
        Placements{{"dp_shard_cp", Placement::shard(0)}, {"tp", Placement::shard(0)}});
  CHECK(query.tp_shape(layout.mesh, 3) == Shape{2048, 4096});
  CHECK(query.box(layout.mesh, 0) == Box{{0, 0}, {1024, 4096}});
  CHECK(query.box(layout.mesh, 1) == Box{{2048, 0}, {1024, 4096}});
  CHECK(query.box(layout.mesh, 2) == Box{{1024, 0}, {1024, 4096}});
  CHECK(query.box(layout.mesh, 3) == Box{{3072, 0}, {1024, 4096}});
  const auto& out = at(layout, "model.layers.0.self_attn.o_proj.weight");
  CHECK(out.box(layout.mesh, 3) == Box{{2048, 2048}, {2048, 2048}});
  const auto& norm = at(layout, "model.norm.weight");
  CHECK(norm.placements(layout.mesh) ==
        Placements{{"dp_shard_cp", Placement::shard(0)}, {"tp", Placement::replicate()}});
  CHECK(norm.box(layout.mesh, 3) == Box{{2048}, {2048}});
}

TEST_CASE("the boxes of all ranks tile every parameter") {
  auto config = model_of("qwen2.5-0.5b");
  config.num_hidden_layers = 1;
  config.hidden_size = 30;
  config.intermediate_size = 37;
  config.vocab_size = 101;
  config.head_dim = 6;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  for (const char* mesh :
       {"world_size = 1", "world_size = 7", "world_size = 6\ntp_size = 2",
        "world_size = 12\ntp_size = 2\ndp_replicate_size = 2", "world_size = 8\ncp_size = 2"}) {
    INFO(mesh);
    const Layout layout =
        layout_of(plan_of(am::cat("[mesh]\n", mesh, "\n"), "qwen2.5-0.5b"), config);
    for (const auto& parameter : layout.parameters) {
      int64_t held = 0;
      for (int64_t rank = 0; rank < layout.mesh.world_size(); ++rank) {
        const Box box = parameter.box(layout.mesh, rank);
        CHECK(box.numel() <= parameter.stored_numel(layout.mesh, rank));
        const bool tp_copy = !parameter.tp_dim && layout.mesh.index(rank, "tp") > 0;
        const bool replica = layout.mesh.index(rank, "dp_replicate") > 0;
        if (!tp_copy && !replica) held += box.numel();
      }
      INFO(parameter.name);
      CHECK(held == am::numel(parameter.shape));
    }
  }
}

TEST_CASE("each expert is on one ep rank, cut over ep_shard") {
  const Layout layout =
      layout_of("[mesh]\nworld_size = 16\ntp_size = 2\nep_size = 4\n", "mixtral-8x7b-v0.1");
  const auto& mesh = layout.mesh;
  const auto& fifth = at(layout, "model.layers.3.block_sparse_moe.experts.5.w1.weight");
  CHECK(fifth.ep_owner == 2);  // two experts on each of the four ep ranks
  CHECK(fifth.placements(mesh) == Placements{{"ep_shard", Placement::shard(0)}});
  CHECK(layout.first_holder(fifth) == 2);
  CHECK_FALSE(layout.holds(0, fifth));
  CHECK(layout.holds(6, fifth));
  CHECK(fifth.box(mesh, 6) == Box{{3584, 0}, {3584, 4096}});
  const auto& router = at(layout, "model.layers.3.block_sparse_moe.gate.weight");
  CHECK(router.placements(mesh) ==
        Placements{{"dp_shard_cp", Placement::shard(0)}, {"tp", Placement::replicate()}});
}

TEST_CASE("the experts of one tensor are cut over ep") {
  const Layout layout = layout_of(
      "[mesh]\nworld_size = 8\nep_size = 4\npp_size = 2\n[train]\nglobal_batch_size = 8\n",
      "gpt-oss-20b");
  const auto& down = at(layout, "model.layers.0.mlp.experts.down_proj");
  REQUIRE(down.shape == Shape{32, 2880, 2880});
  CHECK(down.ep_cut);
  CHECK(down.placements(layout.mesh) == Placements{{"ep", Placement::shard(0)}});
  CHECK(down.box(layout.mesh, 3) == Box{{24, 0, 0}, {8, 2880, 2880}});
  CHECK_FALSE(layout.holds(4, down));
}

TEST_CASE("every element of every expert is held once") {
  for (const std::string model : {"mixtral-8x7b-v0.1", "gpt-oss-20b"}) {
    for (const char* mesh :
         {"world_size = 8\nep_size = 2", "world_size = 12\ntp_size = 3\nep_size = 4",
          "world_size = 16\ndp_replicate_size = 2\ncp_size = 2\nep_size = 8",
          "world_size = 8\nep_size = 8"}) {
      INFO(model << " " << mesh);
      auto config = model_of(model);
      config.num_hidden_layers = 1;
      const auto plan = plan_of(am::cat("[mesh]\n", mesh, "\n"), model);
      const Layout layout = layout_of(plan, config);
      int experts = 0;
      for (const auto& parameter : layout.parameters) {
        if (!parameter.expert_parallel()) continue;
        ++experts;
        int64_t held = 0;
        for (int64_t rank = 0; rank < layout.mesh.world_size(); ++rank) {
          if (!layout.holds(rank, parameter)) continue;
          const Box box = parameter.box(layout.mesh, rank);
          CHECK(box.numel() <= parameter.stored_numel(layout.mesh, rank));
          held += box.numel();
        }
        INFO(parameter.name);
        CHECK(held == am::numel(parameter.shape));
      }
      CHECK(experts > 0);
    }
  }
}

TEST_CASE("FSDP pieces are stored padded") {
  auto config = model_of("llama-3.2-1b");
  config.num_hidden_layers = 1;
  config.vocab_size = 5;
  const Layout layout = layout_of(plan_of("[mesh]\nworld_size = 4\n", "llama-3.2-1b"), config);
  const auto& embedding = at(layout, "model.embed_tokens.weight");
  CHECK(embedding.box(layout.mesh, 2) == Box{{4, 0}, {1, 2048}});
  CHECK(embedding.box(layout.mesh, 3).numel() == 0);
  for (int64_t rank = 0; rank < 4; ++rank) {
    CHECK(embedding.stored_numel(layout.mesh, rank) == 2 * 2048);
  }
}

TEST_CASE("parameters are placed on another dimension, ignored or frozen") {
  const auto config = model_of("llama-3.2-1b");
  const Layout layout = layout_of(
      plan_of("freeze_params = [\"*.up_proj.weight\"]\n[mesh]\nworld_size = 8\ntp_size = 2\n"
              "[strategy]\nshard_placement = { \"*_proj.weight\" = 1, \"*.q_proj.weight\" = 0 }\n"
              "ignored_params = [\"model.norm.weight\", \"*.v_proj.weight\"]\n",
              "llama-3.2-1b"),
      config);
  const auto& down = at(layout, "model.layers.0.mlp.down_proj.weight");  // tp shards dim 1 (8192)
  CHECK(down.box(layout.mesh, 3) == Box{{0, 4096 + 1024}, {2048, 1024}});
  CHECK(down.stored_numel(layout.mesh, 3) == 2048 * 1024);
  CHECK(am::mesh::to_string(down.placements(layout.mesh).front().second) == "Shard(1)");
  CHECK(at(layout, "model.layers.0.self_attn.q_proj.weight").fsdp_dim == 0);
  const auto& value = at(layout, "model.layers.3.self_attn.v_proj.weight");  // tp shards dim 0
  CHECK_FALSE(value.fsdp);
  CHECK(value.box(layout.mesh, 5) == Box{{256, 0}, {256, 2048}});
  CHECK(at(layout, "model.layers.0.mlp.up_proj.weight").fsdp);
  CHECK_FALSE(at(layout, "model.layers.0.mlp.up_proj.weight").trainable);
  CHECK(down.trainable);
  CHECK(layout.ignored().size() == 17);
  const auto gathered = layout.gathered(layout.units[1]);
  CHECK(gathered.size() + 1 == layout.units[1].parameters.size());
}

TEST_CASE("ddp and a single rank cut nothing") {
  const Layout ddp = layout_of("[mesh]\nworld_size = 4\n[strategy]\nname = \"ddp\"\n");
  const auto& weight = at(ddp, "model.layers.0.mlp.up_proj.weight");
  CHECK(weight.placements(ddp.mesh) == Placements{{"dp_replicate", Placement::replicate()}});
  CHECK(weight.placements(ddp.mesh).size() == 1);
  const Layout one = layout_of("[mesh]\nworld_size = 1\n");
  CHECK(at(one, "model.layers.0.mlp.up_proj.weight").placements(one.mesh).empty());
  CHECK_FALSE(at(one, "model.layers.0.mlp.up_proj.weight").tp_dim.has_value());
}

TEST_CASE("megatron_fsdp shards what it stores at every level but 0") {
  const std::string text = "[mesh]\nworld_size = 4\n[strategy]\nname = \"megatron_fsdp\"\n";
  CHECK(at(layout_of(text), "model.norm.weight").fsdp);
  CHECK(at(layout_of(text + "zero_dp_strategy = 1\n"), "model.norm.weight").fsdp);
  const Layout whole = layout_of(text + "zero_dp_strategy = 0\n");
  CHECK_FALSE(at(whole, "model.norm.weight").fsdp);
  CHECK(whole.mesh.sizes().dp_replicate == 4);
}

TEST_CASE("hybrid sharding replicates over dp_replicate") {
  const Layout layout = layout_of("[mesh]\nworld_size = 8\ndp_replicate_size = 2\ncp_size = 2\n");
  CHECK(at(layout, "lm_head.weight").placements(layout.mesh) ==
        Placements{{"dp_replicate", Placement::replicate()}, {"dp_shard_cp", Placement::shard(0)}});
}

TEST_CASE("an inline plan, a file and a registered name") {
  const TemporaryFolder folder;
  const auto file = folder / "mine.toml";
  std::ofstream(file) << "\"model.layers.*.mlp.{gate,up}_proj\" = \"colwise\"\n"
                         "\"model.layers.*.mlp.down_proj\" = \"rowwise\"\n";
  const std::string mesh = "[mesh]\nworld_size = 2\ntp_size = 2\n[strategy]\n";
  for (const std::string& plan :
       {am::cat("tp_plan = \"", file.string(), "\"\n"),
        std::string("tp_plan = { \"model.layers.*.mlp.{gate,up}_proj\" = \"colwise\", "
                    "\"model.layers.*.mlp.down_proj\" = \"rowwise\" }\n")}) {
    const Layout layout = layout_of(mesh + plan);
    CHECK(at(layout, "model.layers.3.mlp.up_proj.weight").tp_dim == 0);
    CHECK(at(layout, "model.layers.3.mlp.down_proj.weight").tp_dim == 1);
    CHECK_FALSE(at(layout, "model.layers.3.self_attn.q_proj.weight").tp_dim.has_value());
  }
  CHECK(at(layout_of(mesh + "tp_plan = \"llama\"\n"), "lm_head.weight").tp_dim == 0);

  std::ofstream(file) << "[tp_plan]\n\"model.layers.*.mlp.up_proj\" = \"colwize\"\n";
  Diagnostics found;
  const auto plan = plan_of(am::cat(mesh, "tp_plan = \"", file.string(), "\"\n"));
  CHECK_FALSE(am::layout::select_tp_plan(plan, model_of("llama-3.1-8b"), found).has_value());
  REQUIRE(ids(found) == Ids{"tp.style"});
  CHECK(found.items()[0].span.file == file.string());
  CHECK(found.items()[0].span.line == 2);
}

TEST_CASE("a plan from a shared library") {
  const std::string mesh = "[mesh]\nworld_size = 2\ntp_size = 2\n[strategy]\ntp_plan = \"";
  const std::string library = am::cat(am::test::kPluginFolder, "/tp_plan.so:");
  auto trusted = plan_of(mesh + library + "good\"\n");
  trusted.plugins = am::config::Plugins::kAllowed;
  const Layout layout = layout_of(trusted, model_of("llama-3.1-8b"));
  CHECK(at(layout, "model.layers.3.mlp.up_proj.weight").tp_dim == 0);
  CHECK_FALSE(at(layout, "model.layers.3.self_attn.q_proj.weight").tp_dim.has_value());
  for (const auto& [symbol, rule] :
       {std::pair{"nothing", "tp.plan"}, {"absent", "tp.plan"}, {"no_toml", "plan.syntax"}}) {
    INFO(symbol);
    Diagnostics found;
    auto plan = plan_of(am::cat(mesh, library, symbol, "\"\n"));
    plan.plugins = am::config::Plugins::kAllowed;
    CHECK_FALSE(am::layout::select_tp_plan(plan, model_of("llama-3.1-8b"), found).has_value());
    CHECK(ids(found) == Ids{rule});
  }
}

TEST_CASE("a plugin is not even opened unless the reader of the plan allows it") {
  const TemporaryFolder folder;
  const std::filesystem::path mark = folder.path() / "loaded";
  ::setenv("AM_TEST_MARK", mark.c_str(), 1);
  const std::string text = am::cat("[mesh]\nworld_size = 2\ntp_size = 2\n[strategy]\ntp_plan = \"",
                                   am::test::kPluginFolder, "/leaves_a_file.so:feed_forward\"\n");
  auto plan = plan_of(text);
  Diagnostics found;
  CHECK_FALSE(am::layout::select_tp_plan(plan, model_of("llama-3.1-8b"), found).has_value());
  CHECK_FALSE(std::filesystem::exists(mark));
  REQUIRE(ids(found) == Ids{"tp.plugin"});
  CHECK(found.items()[0].span.line == 7);
  CHECK_THAT(found.items()[0].help, Catch::Contains("--allow-plugins"));

  plan.plugins = am::config::Plugins::kAllowed;
  Diagnostics none;
  CHECK(am::layout::select_tp_plan(plan, model_of("llama-3.1-8b"), none).has_value());
  CHECK(std::filesystem::exists(mark));
  ::unsetenv("AM_TEST_MARK");
}

TEST_CASE("a tp_plan that cannot be had is an error at its key") {
  const std::string mesh = "[mesh]\nworld_size = 2\ntp_size = 2\n[strategy]\n";
  for (const char* text : {"nowhere/plan.toml", "lama", "nowhere/libmine.so:plan", "libc.so.6:x"}) {
    INFO(text);
    Diagnostics found;
    auto plan = plan_of(am::cat(mesh, "tp_plan = \"", text, "\"\n"));
    plan.plugins = am::config::Plugins::kAllowed;
    CHECK_FALSE(am::layout::select_tp_plan(plan, model_of("llama-3.1-8b"), found).has_value());
    REQUIRE(ids(found) == Ids{"tp.plan"});
    CHECK(found.items()[0].span.line == 7);
  }
}

TEST_CASE("layers are dealt to stages, extra ones to the first") {
  am::config::PipelineSection pipeline;
  CHECK(am::layout::stage_of_layers(pipeline, 5, 2) == std::vector<int>{0, 0, 0, 1, 1});
  CHECK(am::layout::stage_of_layers(pipeline, 3, 3) == std::vector<int>{0, 1, 2});
  pipeline.split_points = {1, 4};
  CHECK(am::layout::stage_of_layers(pipeline, 5, 3) == std::vector<int>{0, 1, 1, 1, 2});
  CHECK_FALSE(am::layout::split_points_fit({4, 1}, 5, 3));
  CHECK_FALSE(am::layout::split_points_fit({1, 6}, 5, 3));
  CHECK_FALSE(am::layout::split_points_fit({0, 0}, 5, 3));
  CHECK(am::layout::split_points_fit({0, 5}, 5, 3));
  pipeline.split_points = {0, 2, 5};
  CHECK(am::layout::stage_of_layers(pipeline, 5, 4) == std::vector<int>{1, 1, 2, 2, 2});
  CHECK_FALSE(am::layout::split_points_fit({1}, 5, 3));
  CHECK(am::pipeline::stage_owners("looped_bfs", 2, 2) == std::vector<int64_t>{0, 1, 0, 1});
  CHECK(am::pipeline::stage_owners("zbv_zero_bubble", 2, 2) == std::vector<int64_t>{0, 1, 1, 0});
}

TEST_CASE("a pipeline's schedule, as the plan has it") {
  const auto in_flight = [](const am::config::PipelineSection& pipeline, int64_t pp) {
    const auto shape = am::layout::pipeline_shape(pipeline, pp);
    std::vector<int64_t> sums;
    for (const auto& list : *am::layout::executed_lists(shape)) {
      const auto of_stages = am::pipeline::in_flight_by_stage(list, shape.stages());
      sums.push_back(std::accumulate(of_stages.begin(), of_stages.end(), int64_t{0}));
    }
    return sums;
  };
  am::config::PipelineSection pipeline;
  CHECK(am::layout::pipeline_shape(pipeline, 4).microbatches == 4);
  CHECK(in_flight(pipeline, 4) == std::vector<int64_t>{4, 3, 2, 1});
  CHECK(am::layout::executed_lists(am::layout::pipeline_shape(pipeline, 1)) == nullptr);
  pipeline.microbatches = 300;  // more micro-batches do not increase the number in flight
  CHECK(in_flight(pipeline, 4) == std::vector<int64_t>{4, 3, 2, 1});
  pipeline.microbatches = 3;  // too few for 1f1b, so the lists are gpipe's
  CHECK(in_flight(pipeline, 4) == std::vector<int64_t>{3, 3, 3, 3});
  pipeline.schedule = "zbv_zero_bubble";
  pipeline.virtual_stages = 2;
  pipeline.microbatches = 0;
  CHECK(am::layout::pipeline_shape(pipeline, 2).microbatches == 4);
  // Rank 0 runs stages 0 and 3, and rank 1 stages 1 and 2. On each rank, at most four micro-batches
  // are in flight, over both stages.
  CHECK(in_flight(pipeline, 2) == std::vector<int64_t>{4, 4});
}

TEST_CASE("a pipeline rank holds its stages' parameters") {
  const Layout layout = layout_of("[mesh]\nworld_size = 4\npp_size = 2\n");
  CHECK(at(layout, "model.embed_tokens.weight").stage == 0);
  CHECK(at(layout, "model.layers.15.mlp.up_proj.weight").stage == 0);
  CHECK(at(layout, "model.layers.16.mlp.up_proj.weight").stage == 1);
  CHECK(at(layout, "lm_head.weight").stage == 1);
  CHECK(layout.holds(0, at(layout, "model.embed_tokens.weight")));
  CHECK_FALSE(layout.holds(2, at(layout, "model.embed_tokens.weight")));
  CHECK(layout.holds(3, at(layout, "model.norm.weight")));
}

}  // namespace
