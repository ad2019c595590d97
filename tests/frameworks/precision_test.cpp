// Tests exports and imports of the dtypes of weights, gradients and optimizer states. If a file
// omits a dtype, the import uses the framework's default, not the default of a plan.
#include "am/layout/precision.h"

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "frameworks/exchange_support.h"

using namespace am;
using namespace am::frameworks;
using namespace am::layout;
using am::test::framework;
using am::test::imported;

namespace {

const config::MegatronFSDPConfig& megatron_fsdp(const Imported& in) {
  const auto* strategy = std::get_if<config::MegatronFSDPConfig>(&in.plan.strategy);
  REQUIRE(strategy != nullptr);
  return *strategy;
}

std::string reduced_in(const std::string& flags) {
  const Imported in = imported(framework("megatron"), cat("--num-layers 2 ", flags));
  return resolve_precision(in.plan).reduce;
}

bool loses(const char* from, const std::string& text, const std::string& key) {
  Diagnostics found;
  import_plan(framework(from), text, "file", found);
  return found.errors() == 1 && found.items().front().rule == "exchange.lost" &&
         starts_with(found.items().front().message, cat(key, " = "));
}

std::string exported(const char* to, const std::string& plan) {
  const test::ValidPlan valid = test::valid(plan);
  return export_plan(framework(to), {valid.plan, valid.model, valid.layout}).text;
}

}  // namespace

TEST_CASE("megatron: --bf16 reduces in float32 and keeps float32 weights", "[exchange]") {
  for (const char* sizes :
       {"--use-distributed-optimizer", "--use-distributed-optimizer --tensor-model-parallel-size 2",
        "--pipeline-model-parallel-size 2 --use-distributed-optimizer", "",
        "--tensor-model-parallel-size 2", "--tensor-model-parallel-size 2 --sequence-parallel",
        "--context-parallel-size 2", "--use-megatron-fsdp"}) {
    CAPTURE(sizes);
    CHECK(reduced_in(cat("--bf16 ", sizes)) == "float32");
    CHECK(reduced_in(cat("--bf16 --grad-reduce-in-bf16 ", sizes)) == "bfloat16");
    CHECK(reduced_in(cat("--bf16 --main-grads-dtype bf16 ", sizes)) == "bfloat16");
    CHECK(reduced_in(cat("--fp16 ", sizes)) == "float16");
    CHECK(reduced_in(cat("--fp16 --accumulate-allreduce-grads-in-fp32 ", sizes)) == "float32");
    CHECK(reduced_in(sizes) == "float32");
    const Imported in = imported(framework("megatron"), cat("--num-layers 2 --bf16 ", sizes));
    const StepPrecision precision = resolve_precision(in.plan);
    CHECK(precision.storage == "float32");
    CHECK(precision.compute == "bfloat16");
  }
  // Megatron does not set a reduce dtype for PyTorch's FSDP2, so gradients are reduced in bfloat16.
  CHECK(reduced_in("--bf16 --use-torch-fsdp2") == "bfloat16");
}

TEST_CASE("megatron: a job without FSDP is the strategy megatron", "[exchange]") {
  const auto zero = [](const char* flags) {
    const Imported in = imported(framework("megatron"), cat("--num-layers 2 ", flags));
    CAPTURE(flags);
    CHECK(in.lost.empty());
    REQUIRE(std::holds_alternative<config::MegatronConfig>(in.plan.strategy));
    return std::get<config::MegatronConfig>(in.plan.strategy).zero;
  };
  CHECK(zero("") == 0);
  CHECK(zero("--bf16") == 0);
  CHECK(zero("--bf16 --use-distributed-optimizer") == 1);
  CHECK(zero("--bf16 --use-distributed-optimizer --tensor-model-parallel-size 2") == 1);
  // Megatron reads the sharding strategy only with its FSDP.
  CHECK(zero("--bf16 --data-parallel-sharding-strategy optim_grads_params") == 0);
}

TEST_CASE("megatron: dtypes of Megatron-FSDP and of the optimizer", "[exchange]") {
  const std::string fsdp = "--num-layers 2 --bf16 --use-megatron-fsdp ";
  CHECK(reduced_in("--bf16 --use-megatron-fsdp --megatron-fsdp-main-grads-dtype auto") ==
        "bfloat16");
  CHECK_FALSE(megatron_fsdp(imported(framework("megatron"), cat(fsdp,
                                                                "--megatron-fsdp-main-params-dtype "
                                                                "auto")))
                  .preserve_fp32_weights);
  for (const char* key : {"--main-params-dtype", "--exp-avg-dtype", "--exp-avg-sq-dtype",
                          "--megatron-fsdp-main-params-dtype", "--megatron-fsdp-grad-comm-dtype"}) {
    CAPTURE(key);
    const char* one = ends_with(key, "comm-dtype") ? " bf16" : " fp16";
    CHECK(loses("megatron", cat(fsdp, key, one), key));
    CHECK_FALSE(loses("megatron", cat(fsdp, key, " fp32"), key));
  }
}

TEST_CASE("megatron: a plan's dtypes of reductions go by their flags", "[exchange]") {
  const auto has = [](const std::string& text, const char* flag) {
    return text.find(flag) != std::string::npos;
  };
  for (const char* sizes : {"world_size = 8\n", "world_size = 8\npp_size = 2\n"}) {
    const auto plan = [&](const char* param, const char* reduce) {
      return exported("megatron",
                      cat("[mesh]\n", sizes,
                          "[train]\nglobal_batch_size = 16\n[strategy]\nname = \"fsdp2\"\n"
                          "mp_policy = { param_dtype = \"",
                          param, "\", reduce_dtype = \"", reduce, "\" }\n"));
    };
    CAPTURE(sizes);
    CHECK(has(plan("bfloat16", "bfloat16"), "--grad-reduce-in-bf16"));
    CHECK_FALSE(has(plan("bfloat16", "float32"), "--grad-reduce-in-bf16"));
    CHECK(has(plan("float16", "float32"), "--accumulate-allreduce-grads-in-fp32"));
  }
  const std::string fsdp =
      "dtype = \"bfloat16\"\n[mesh]\nworld_size = 8\n"
      "[strategy]\nname = \"megatron_fsdp\"\n";
  CHECK(has(exported("megatron", fsdp), "--megatron-fsdp-main-params-dtype auto"));
  CHECK(has(exported("megatron", cat(fsdp, "preserve_fp32_weights = true\n")),
            "--megatron-fsdp-main-params-dtype fp32"));
}

TEST_CASE("deepspeed: float32 weights lie beside those of 16 bits at each stage", "[exchange]") {
  for (const char* form : {"bf16", "fp16"}) {
    for (int stage = 0; stage <= 3; ++stage) {
      const std::string text =
          cat("{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 1, "
              "\"gradient_accumulation_steps\": 1, \"",
              form, "\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": ", stage, "}}");
      CAPTURE(text);
      const Imported in = imported(framework("deepspeed"), text);
      CHECK(resolve_precision(in.plan).storage == "float32");
      if (stage < 3) {
        CHECK(megatron_fsdp(in).preserve_fp32_weights);
        CHECK(megatron_fsdp(in).zero_dp_strategy == stage);
      }
      const Imported inside =
          imported(framework("accelerate"),
                   cat("distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: ", form,
                       "\ndeepspeed_config:\n  zero_stage: ", stage, "\n"));
      CHECK(resolve_precision(inside.plan).storage == "float32");
      CHECK(resolve_precision(inside.plan).compute == resolve_precision(in.plan).compute);
    }
  }
}

TEST_CASE("an optimizer that a plan does not have is lost", "[exchange]") {
  CHECK(loses("megatron", "--num-layers 2 --optimizer muon", "--optimizer"));
  CHECK(loses("deepspeed", R"({"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}})",
              "optimizer.type"));
  CHECK(loses("torchtitan", "[training]\nsteps = 1\n[optimizer]\nname = \"Muon\"\n",
              "optimizer.name"));
  CHECK(loses("nemo-automodel", "distributed:\n  dp_size: 2\noptimizer:\n  _target_: x.Dion\n",
              "optimizer._target_"));
  CHECK(imported(framework("nemo-automodel"),
                 "distributed:\n  dp_size: 2\noptimizer:\n  _target_: x.y.FusedAdam\n")
            .plan.optimizer.name == "adamw");
}
