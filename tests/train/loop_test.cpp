// Compares twenty steps under many layouts with a plain PyTorch AdamW loop on the same samples
// (tests/data/loop, made by scripts/fixtures/make_fixtures.py).
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <mutex>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "support/plans.h"
#include "support/train_curve.h"

namespace am {
namespace {

using test::float32_fsdp2;

std::string ddp(int64_t world) {
  return cat("[mesh]\nworld_size = ", world, "\n[strategy]\nname = \"ddp\"\n");
}

std::string megatron_fsdp(int64_t world, int64_t level, const std::string& more = {}) {
  return cat("[mesh]\nworld_size = ", world, "\n[strategy]\nname = \"megatron_fsdp\"\n",
             "zero_dp_strategy = ", level, "\n", more);
}

std::string megatron(const std::string& mesh, const std::string& strategy) {
  return cat("[mesh]\n", mesh, "[strategy]\nname = \"megatron\"\nparams_dtype = \"float32\"\n",
             strategy);
}

std::string loop_plan(const std::string& layout, int64_t micro_batch, const std::string& more) {
  return cat("[model]\npath = \"loop/model\"\n[train]\nseq_len = 16\nglobal_batch_size = 8\n",
             "micro_batch_size = ", micro_batch, "\nmax_steps = 20\nmax_grad_norm = 1.0\n",
             "[optimizer]\nlr = 1e-2\n[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\n",
             "shuffle = false\n", more, layout);
}

Json reference() { return Json::parse(read_file(test::data_path("loop/losses.json"))); }

test::Curve train_curve(const std::string& plan_text, int64_t ranks) {
  return test::train_curve(test::parse(plan_text), ranks);
}

void check_equal(const std::vector<double>& got, const Json& wanted, double first, double all) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("step " << i);
    CHECK(got[i] == Approx(wanted[i].get<double>()).epsilon(i == 0 ? first : all).margin(0));
  }
}

void check_curve(const test::Curve& curve, const Json& wanted) {
  check_equal(curve.losses, wanted["losses"], 1e-6, 1e-4);
  check_equal(curve.norms, wanted["grad_norms"], 1e-5, 1e-3);
  check_equal(curve.lrs, wanted["lrs"], 1e-12, 1e-12);
}

}  // namespace

TEST_CASE("every layout trains along PyTorch's loss curve") {
  const std::vector<test::LayoutCase> layouts = {
      {"one rank", 1, float32_fsdp2(1)},
      {"ddp on 2", 2, ddp(2)},
      {"ddp on 4", 4, ddp(4)},
      {"fsdp2 on 2", 2, float32_fsdp2(2)},
      {"fsdp2 on 4", 4, float32_fsdp2(4)},
      {"fsdp2 on 4, prefetch", 4, float32_fsdp2(4, "", "enable_fsdp2_prefetch = true\n")},
      {"fsdp2 on 2, never resharded", 2, float32_fsdp2(2, "", "reshard_after_forward = false\n")},
      {"fsdp2 on 2, always resharded", 2, float32_fsdp2(2, "", "reshard_after_forward = true\n")},
      {"hsdp 2 x 2", 4, float32_fsdp2(4, "dp_replicate_size = 2\n")},
      {"megatron_fsdp no_shard on 2", 2, megatron_fsdp(2, 0)},
      {"megatron_fsdp optim on 4", 4, megatron_fsdp(4, 1)},
      {"megatron_fsdp optim_grads on 2", 2, megatron_fsdp(2, 2)},
      {"megatron_fsdp optim_grads_params on 4", 4, megatron_fsdp(4, 3)},
      {"megatron_fsdp on 2, nothing overlapped", 2,
       megatron_fsdp(2, 1, "overlap_grad_reduce = false\noverlap_param_gather = false\n")},
      {"megatron zero 1 on 4", 4, megatron("world_size = 4\n", "zero = 1\n")},
      {"megatron zero 2, pp 2", 4, megatron("world_size = 4\npp_size = 2\n", "zero = 2\n")},
      {"megatron zero 1, tp 2, sequence parallel", 4,
       megatron("world_size = 4\ntp_size = 2\n", "sequence_parallel = true\n")},
      {"tp 2", 2, float32_fsdp2(2, "tp_size = 2\n")},
      {"tp 2, sequence parallel", 2,
       float32_fsdp2(2, "tp_size = 2\n", "sequence_parallel = true\n")},
      {"tp 2 x fsdp2 2", 4, float32_fsdp2(4, "tp_size = 2\n")},
      {"cp 2 x fsdp2 2", 4, float32_fsdp2(4, "cp_size = 2\n")},
      {"cp 2 x megatron_fsdp 2", 4,
       "[mesh]\nworld_size = 4\ncp_size = 2\n[strategy]\nname = \"megatron_fsdp\"\n"},
      {"cp 2, ulysses, x tp 2", 4,
       float32_fsdp2(4, "cp_size = 2\ntp_size = 2\n[context]\nmethod = \"ulysses\"\n")},
  };
  const Json wanted = reference();
  for (const auto& layout : layouts) {
    DYNAMIC_SECTION(layout.name) {
      check_curve(train_curve(loop_plan(layout.toml, 2, ""), layout.ranks), wanted);
    }
  }
}

// tests/data/lora/loop, made by scripts/fixtures/make_adapters.py, contains PEFT's adapter and the
// losses of the plain PyTorch loop with only the adapter's parameters trained.
TEST_CASE("adapters train along PEFT's loss curve") {
  const std::string lora =
      "[lora]\nrank = 4\nalpha = 6\nweights = \"lora/loop\"\ntarget_modules = [\"q_proj\", "
      "\"v_proj\", \"o_proj\", \"up_proj\", \"down_proj\", \"lm_head\"]\n";
  const std::vector<std::tuple<const char*, int64_t, int64_t, std::string>> layouts = {
      {"one rank", 1, 2, float32_fsdp2(1)},
      {"fsdp2 on 4", 4, 2, float32_fsdp2(4)},
      {"hsdp 2 x 2, accumulation", 4, 1, float32_fsdp2(4, "dp_replicate_size = 2\n")},
      {"ddp on 2", 2, 2, ddp(2)},
      {"megatron_fsdp on 2", 2, 1, megatron_fsdp(2, 3)},
      {"tp 2", 2, 2, float32_fsdp2(2, "tp_size = 2\n")},
      {"tp 2 x fsdp2 2, sequence parallel, checkpointing", 4, 2,
       float32_fsdp2(4, "tp_size = 2\n",
                     "sequence_parallel = true\nactivation_checkpointing = true\n")},
  };
  const Json wanted = Json::parse(read_file(test::data_path("lora/loop/curve.json")));
  for (const auto& [name, ranks, micro_batch, layout] : layouts) {
    DYNAMIC_SECTION(name) {
      check_curve(train_curve(loop_plan(layout, micro_batch, lora), ranks), wanted);
    }
  }
}

TEST_CASE("gradient accumulation, deferred or not, changes nothing") {
  const Json wanted = reference();
  const std::string defer = GENERATE("true", "false");
  INFO("defer_fsdp_grad_sync = " << defer);
  const std::string layout = float32_fsdp2(2, "", cat("defer_fsdp_grad_sync = ", defer, "\n"));
  check_curve(train_curve(loop_plan(layout, 1, ""), 2), wanted);
}

TEST_CASE("megatron_fsdp accumulates gradients at every level") {
  const Json wanted = reference();
  const int64_t level = GENERATE(0, 1, 2, 3);
  INFO("zero_dp_strategy = " << level);
  check_curve(train_curve(loop_plan(megatron_fsdp(2, level), 1, ""), 2), wanted);
}

TEST_CASE("warm-up and cosine decay follow PyTorch's curve") {
  const Json wanted = reference()["cosine"];
  const std::string scheduler =
      "[scheduler]\nname = \"cosine\"\nwarmup_steps = 5\nmin_lr = 1e-3\ndecay_steps = 20\n";
  check_curve(train_curve(loop_plan(float32_fsdp2(2), 2, scheduler), 2), wanted);
}

TEST_CASE("bfloat16 compute stays near the float32 curve") {
  const std::string layout = "[mesh]\nworld_size = 2\n[strategy]\nname = \"fsdp2\"\n";
  const test::Curve curve = train_curve(loop_plan(layout, 2, ""), 2);
  const Json wanted = reference()["losses"];
  check_equal(curve.losses, wanted, 2e-2, 5e-2);
  CHECK(curve.losses[0] != wanted[0].get<double>());
}

}  // namespace am
