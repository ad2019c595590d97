// Tests the entry points with AutoModel's names: a step of their models equals, bit by bit, a step
// of the models that plans describe.
#include "am/compat/parallelizer.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <functional>

#include "am/base/error.h"
#include "support/model_step.h"
#include "support/rank_check.h"

namespace am::compat {

namespace {

using mesh::MeshLayout;
using mesh::MeshSizes;
using runtime::DeviceMesh;
using runtime::World;

config::FSDP2Config full_precision() {
  config::FSDP2Config strategy;
  strategy.mp_policy = {"float32", "float32", "float32", true};
  return strategy;
}

model::ModelConfig config_of(const std::string& family) {
  Diagnostics found;
  auto config = model::load_config(test::data_path("hf/" + family), found);
  REQUIRE(config.has_value());
  return *std::move(config);
}

config::Plan plan_of(const std::string& layout) {
  return test::parse(
      cat("[model]\npath = \"hf/llama\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n", layout));
}

using Make = std::function<std::unique_ptr<parallel::ParallelModel>(const model::ModelConfig&,
                                                                    const runtime::DeviceMesh&)>;

// Checks on every rank that a training step of the model from `make` equals, bit by bit, a step of
// the plan's model.
void check_same(const MeshSizes& sizes, const std::string& layout, const Make& make) {
  const config::Plan plan = plan_of(layout);
  const model::ModelConfig config = config_of("llama");
  runtime::run_ranks(sizes.world_size(), [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, MeshLayout(sizes));
    const auto model = make(config, mesh);
    test::RankModel planned(plan, world);
    RANK_CHECK(
        test::same_bits(test::step_of(*model, "llama"), test::step_of(*planned.model, "llama")));
  });
}

// Calls `make` on one rank of a simulated mesh, and returns the error's text and help; empty texts
// if `make` succeeds.
std::pair<std::string, std::string> error_of(const MeshSizes& sizes, const Make& make,
                                             const std::string& family = "llama") {
  const runtime::World world = runtime::World::fake(0, sizes.world_size());
  const runtime::DeviceMesh mesh(world, MeshLayout(sizes), c10::Device(c10::kMeta));
  try {
    make(config_of(family), mesh);
  } catch (const Error& error) {
    return {error.what(), error.hint()};
  }
  return {};
}

}  // namespace

TEST_CASE("fsdp2_strategy_parallelize is the plan's fsdp2", "[parity]") {
  const std::string precision =
      "mp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", output_dtype = "
      "\"float32\" }\n";
  check_same({.dp_shard = 2}, "[mesh]\nworld_size = 2\n[strategy]\nname = \"fsdp2\"\n",
             [](const auto& config, const runtime::DeviceMesh& mesh) {
               return fsdp2_strategy_parallelize(config, mesh);
             });
  check_same({.dp_shard = 2, .tp = 2},
             "[mesh]\nworld_size = 4\ntp_size = 2\n[strategy]\nname = \"fsdp2\"\n"
             "sequence_parallel = true\nactivation_checkpointing = true\n" +
                 precision,
             [](const auto& config, const runtime::DeviceMesh& mesh) {
               config::FSDP2Config strategy = full_precision();
               strategy.sequence_parallel = true;
               strategy.activation_checkpointing = config::ActivationCheckpointing::kFull;
               return fsdp2_strategy_parallelize(config, mesh, strategy);
             });
  check_same({.dp_replicate = 2, .dp_shard = 2},
             "[mesh]\nworld_size = 4\ndp_replicate_size = 2\n[strategy]\nname = \"fsdp2\"\n",
             [](const auto& config, const runtime::DeviceMesh& mesh) {
               return fsdp2_strategy_parallelize(config, mesh);
             });
}

TEST_CASE("megatron_fsdp, nvfsdp and ddp are the plan's", "[parity]") {
  const std::string megatron = "[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\n";
  check_same({.dp_shard = 2}, megatron, [](const auto& config, const runtime::DeviceMesh& mesh) {
    config::MegatronFSDPConfig strategy;
    strategy.megatron_fsdp_unit_modules = {"LlamaDecoderLayer"};
    return megatron_fsdp_strategy_parallelize(config, mesh, strategy);
  });
  check_same({.dp_shard = 2}, megatron + "zero_dp_strategy = 2\n",
             [](const auto& config, const runtime::DeviceMesh& mesh) {
               return nvfsdp_strategy_parallelize(config, mesh, "optim_grads");
             });
  check_same({.dp_replicate = 2}, "[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n",
             [](const auto& config, const runtime::DeviceMesh& mesh) {
               return ddp_strategy_parallelize(config, mesh);
             });
}

TEST_CASE("sharding strategies by name") {
  CHECK(have_nvfsdp());
  CHECK(zero_level_of("no_shard") == 0);
  CHECK(zero_level_of("optim") == 1);
  CHECK(zero_level_of("optim_grads") == 2);
  CHECK(zero_level_of("optim_grads_params") == 3);
  CHECK(zero_level_of("params") == 3);
  CHECK(zero_level_of("grads_params") == 3);
  try {
    zero_level_of("optim_grad");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    CHECK_THAT(error.what(), Catch::Contains("\"optim_grad\""));
    CHECK_THAT(error.hint(), Catch::Contains("did you mean \"optim_grads\"?") &&
                                 Catch::Contains("no_shard, optim, optim_grads, "
                                                 "optim_grads_params, grads_params, params"));
  }
}

TEST_CASE("what a model or a mesh does not allow is said before anything is made") {
  const auto fsdp2 = [](const auto& config, const runtime::DeviceMesh& mesh) {
    return fsdp2_strategy_parallelize(config, mesh);
  };
  const auto ddp = [](const auto& config, const runtime::DeviceMesh& mesh) {
    return ddp_strategy_parallelize(config, mesh);
  };
  // One error reports the violations of all rules.
  const auto [heads, help] = error_of({.tp = 7}, fsdp2);
  CHECK_THAT(heads, Catch::Contains("tp.heads: ") && Catch::Contains("\ntp.kv_heads: "));
  CHECK_THAT(help, Catch::Contains("tp_size = "));
  CHECK_THAT(error_of({.dp_shard = 2}, ddp).first, Catch::Contains("dp_shard 2") &&
                                                       Catch::Contains("ddp needs") &&
                                                       Catch::Contains("dp_replicate 2"));
  CHECK_THAT(error_of({.dp_replicate = 2, .tp = 2}, ddp).first, Catch::Contains("tp.strategy"));
  CHECK_THAT(error_of({.pp = 2}, fsdp2).first, Catch::Contains("runtime.unsupported"));
  const auto [units, legal] = error_of(
      {.dp_shard = 2},
      [](const auto& config, const runtime::DeviceMesh& mesh) {
        config::MegatronFSDPConfig strategy;
        strategy.megatron_fsdp_unit_modules = {"LlamaDecoderLayer", "MyLayer"};
        return nvfsdp_strategy_parallelize(config, mesh, "optim_grads_params", strategy);
      },
      "qwen3");
  CHECK_THAT(units, Catch::Contains("strategy.unit_modules") &&
                        Catch::Contains("is the decoder layer of llama") &&
                        Catch::Contains("\"MyLayer\""));
  CHECK_THAT(legal, Catch::Contains("\"Qwen3DecoderLayer\""));
}

}  // namespace am::compat
