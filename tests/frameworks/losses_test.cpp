// Tests settings that a plan cannot represent: an import refuses them if they change the layout or
// the computed values, and otherwise lists them. Also tests files of another framework or model.
#include <catch2/catch.hpp>

#include "frameworks/exchange_support.h"

using namespace am;
using namespace am::frameworks;
using am::test::framework;
using am::test::imported;
using Ids = std::vector<std::string>;

namespace {

struct Refusal {
  const char* from;
  const char* text;
  const char* key;  // key that the error must name
};

Diagnostics refused(const char* from, const std::string& text) {
  Diagnostics found;
  CHECK_FALSE(import_plan(framework(from), text, "file", found).has_value());
  return found;
}

constexpr const char* kTitan = "[training]\nsteps = 10\n";

}  // namespace

TEST_CASE("a lost setting that changes the job is an error at its place", "[exchange]") {
  const std::vector<Refusal> cases = {
      {"torchtitan", "[training]\ntensor_parallel_degree = 8\n", "training.tensor_parallel_degree"},
      {"torchtitan", "[training]\nsteps = 1\n[experimental]\npipeline_parallel_degree = 2\n",
       "experimental.pipeline_parallel_degree"},
      {"torchtitan", "[training]\nsteps = 1\n[model]\nconverters = [\"float8\"]\n",
       "model.converters"},
      {"torchtitan", "[training]\nsteps = 1\n[float8]\nenable_float8_linear = true\n",
       "float8.enable_float8_linear"},
      {"megatron", "--num-layers 2 --use-torch-fsdp2 --expert-tensor-parallel-size 4",
       "--expert-tensor-parallel-size"},
      {"megatron", "--num-layers 2 --bf16 --fp8-format hybrid --fp8-param-gather",
       "--fp8-param-gather"},
      {"nemo-automodel", "distributed:\n  tp_size: 2\nfp8:\n  enabled: true\n", "fp8.enabled"},
      {"nemo-automodel",
       "distributed:\n  tp_size: 2\npeft:\n  target_modules: q_proj\n  use_dora: true\n",
       "peft.use_dora"},
      {"accelerate",
       "distributed_type: MULTI_GPU\nnum_processes: 2\nparallelism_config:\n  sp_size: 2\n",
       "parallelism_config.sp_size"},
      {"deepspeed",
       "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}}}",
       "zero_optimization.offload_param.device"},
      {"deepspeed",
       "{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}}",
       "zero_optimization.offload_optimizer.device"},
  };
  for (const Refusal& one : cases) {
    CAPTURE(one.from, one.text);
    const Diagnostics found = refused(one.from, one.text);
    REQUIRE(found.errors() == 1);
    const Diagnostic& error = found.items().front();
    CHECK(error.rule == "exchange.lost");
    CHECK_THAT(error.message, Catch::StartsWith(one.key));
    CHECK(error.span.line > 0);
    CHECK_THAT(error.help, Catch::Contains("--force"));

    Diagnostics forced;
    const auto in = import_plan(framework(one.from), one.text, "file", forced, /*force=*/true);
    REQUIRE(in.has_value());
    CHECK(forced.count(Severity::kWarning) == 1);
    REQUIRE(in->lost.size() == 1);
    CHECK(in->lost[0].key == one.key);
  }
}

TEST_CASE("a setting that is switched off or harmless is not lost", "[exchange]") {
  for (const auto& [from, text] : std::vector<std::pair<const char*, std::string>>{
           {"torchtitan", cat(kTitan, "tensor_parallel_degree = 1\n[model]\nconverters = []\n")},
           {"torchtitan", cat(kTitan, "[parallelism]\nunknown_parallel_degree = -1\n")},
           {"megatron", "--num-layers 2 --expert-tensor-parallel-size 1 --log-throughput"},
           {"deepspeed",
            "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"none\"}, "
            "\"overlap_comm\": true}, \"wall_clock_breakdown\": true}"},
           {"accelerate", "distributed_type: MULTI_GPU\nnum_processes: 2\nfp8_config: {}\n"}}) {
    CAPTURE(from, text);
    CHECK(imported(framework(from), text).lost.empty());
  }
}

TEST_CASE("a file of another framework is refused", "[exchange]") {
  const std::string deepspeed = "{\"zero_optimization\": {\"stage\": 3}}";
  const std::string plan =
      "[model]\npath = \"m\"\n[mesh]\nworld_size = 8\n[optimizer]\nlr = 1e-4\n";
  for (const auto& [from, text] : std::vector<std::pair<const char*, std::string>>{
           {"megatron", "root:x:0:0:root:/root:/bin/bash\nbin:x:1:1::/:/sbin/nologin\n"},
           {"megatron", ""},
           {"megatron", deepspeed},
           {"megatron", "MODEL_ARGS:\n  --pipeline-model-parallel-size: 4\n"},
           {"megatron", "accelerate launch --num_processes 8 train.py --lr 1e-4"},
           {"nemo-automodel", deepspeed},
           {"nemo-automodel", "distributed_type: FSDP\nnum_processes: 4\n"},
           {"torchtitan", ""},
           {"torchtitan", plan},
           {"accelerate", deepspeed},
           {"accelerate", "base_model: org/model\nmicro_batch_size: 2\nfsdp_config: {}\n"},
           {"accelerate", "model_name_or_path: org/model\nstage: sft\n"},
           {"megatron", "from a.recipes import base\n\ndef config():\n    return base()\n"},
           {"torchtitan", "import sys\n\"\"\"\ntext\n\"\"\"\n"},
           {"deepspeed", "{\"model_type\": \"llama\", \"hidden_size\": 8}"}}) {
    CAPTURE(from, text);
    CHECK(refused(from, text).errors() == 1);
  }
  Diagnostics found = refused("megatron", "MODEL_ARGS:\n  --pipeline-model-parallel-size: 4\n");
  CHECK(found.items()[0].span.line == 2);
  for (const auto& [from, text] :
       {std::pair{"torchtitan", ""},
        {"megatron", "import torch\n"},
        {"accelerate", "base_model: org/model\ndeepspeed: zero3.json\n"}}) {
    CHECK(refused(from, text).items()[0].rule == "exchange.framework");
  }
  found = refused("megatron", "torchrun pretrain_gpt.py --lr $LR\n");
  CHECK_THAT(found.items()[0].help, Catch::Contains("echo"));
}

TEST_CASE("Megatron's geometry is held against the model", "[exchange]") {
  const model::ModelConfig llama = test::model_of("llama-3.1-8b");
  const auto compare = [&](const std::string& flags, bool force = false) {
    Diagnostics found;
    compare_model(imported(framework("megatron"), flags), llama, found, force);
    return found;
  };
  CHECK(compare("--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
                "--num-attention-heads 32 --group-query-attention --num-query-groups 8 "
                "--kv-channels 128")
            .empty());
  CHECK(compare("--num-layers 32 --num-query-groups 4")
            .empty());  // ignored without --group-query-attention
  const Diagnostics found = compare("--num-layers 80 --num-experts 8 --moe-router-topk 2");
  CHECK(test::ids(found) == Ids(3, "exchange.model"));
  CHECK_THAT(found.items()[0].message,
             Catch::Contains("--num-layers 80") && Catch::Contains("num_hidden_layers = 32"));
  CHECK(found.items()[0].span.column == 14);
  CHECK(compare("--num-layers 80", true).ok());
}

TEST_CASE("deepspeed: what transformers fills in is left to it", "[exchange]") {
  const Imported in = imported(
      framework("deepspeed"),
      "{\"gradient_clipping\": \"auto\", \"train_batch_size\": \"auto\",\n"
      " \"bf16\": {\"enabled\": \"auto\"}, \"optimizer\": {\"params\": {\"lr\": \"auto\"}},\n"
      " \"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": \"auto\"}}");
  CHECK(std::holds_alternative<config::FSDP2Config>(in.plan.strategy));
  CHECK(in.lost.empty());
  REQUIRE_FALSE(in.notes.empty());
  CHECK_THAT(in.notes.back(), Catch::Contains("gradient_clipping") &&
                                  Catch::Contains("optimizer.params.lr") &&
                                  Catch::Contains("bf16.enabled"));
}

TEST_CASE("nemo-automodel: none is a size that follows from the others", "[exchange]") {
  const Imported in = imported(framework("nemo-automodel"),
                               "distributed:\n  dp_size: none\n  tp_size: 2\n  cp_size: none\n");
  CHECK(in.plan.mesh.tp_size == 2);
  CHECK(in.plan.mesh.cp_size == 1);
  CHECK(in.plan.mesh.dp_size == 0);
}

TEST_CASE("nemo-automodel: keys of 0.7", "[exchange]") {
  const Imported ddp =
      imported(framework("nemo-automodel"),
               "distributed:\n  strategy: ddp\n  dp_size: 2\n  autocast_dtype: bfloat16\n"
               "  activation_checkpointing: selective\ndist_env:\n  timeout_minutes: 30\n");
  const auto& config = std::get<config::DDPConfig>(ddp.plan.strategy);
  CHECK(config.autocast_dtype == "bfloat16");
  CHECK(config.activation_checkpointing == config::ActivationCheckpointing::kSelective);
  CHECK(ddp.plan.runtime.timeout_minutes == 30.0);
  CHECK(ddp.ignored.empty());
  const Imported megatron =
      imported(framework("nemo-automodel"),
               "distributed:\n  strategy: megatron_fsdp\n  report_nan_in_param_grad: true\n");
  CHECK(std::get<config::MegatronFSDPConfig>(megatron.plan.strategy).report_nan_in_param_grad);
  CHECK(megatron.plan.runtime.timeout_minutes ==
        10.0);  // the default of a plan, because the recipe sets no timeout
  CHECK(megatron.toml().find("timeout_minutes") == std::string::npos);
}

TEST_CASE("accelerate: mixed precision under ddp is autocast", "[exchange]") {
  const auto ddp = [](const char* mixed) {
    return std::get<config::DDPConfig>(
        imported(
            framework("accelerate"),
            cat("distributed_type: MULTI_GPU\nnum_processes: 2\nmixed_precision: ", mixed, "\n"))
            .plan.strategy);
  };
  CHECK(ddp("bf16").autocast_dtype == "bfloat16");
  CHECK(ddp("fp16").autocast_dtype == "float16");
  CHECK_FALSE(ddp("'no'").autocast_dtype);
}

TEST_CASE("accelerate: DeepSpeed's settings inside of its file", "[exchange]") {
  const auto text = [](int stage, const char* more = "") {
    return cat("distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: bf16\n",
               "deepspeed_config:\n  zero_stage: ", stage, "\n  gradient_clipping: 0.5\n",
               "  offload_param_device: none\n  zero3_init_flag: true\n", more);
  };
  const auto of = [&](int stage, const char* more = "") {
    return imported(framework("accelerate"), text(stage, more)).plan;
  };
  CHECK(std::get<config::MegatronFSDPConfig>(of(0).strategy).zero_dp_strategy == 0);
  CHECK(std::get<config::MegatronFSDPConfig>(of(2).strategy).zero_dp_strategy == 2);
  CHECK(of(2).model.dtype == "bfloat16");
  const config::Plan sharded = of(3);
  CHECK(sharded.mesh.world_size == 8);
  CHECK(sharded.train.max_grad_norm == 0.5);
  CHECK(std::get<config::FSDP2Config>(sharded.strategy).mp_policy.param_dtype == "bfloat16");
  CHECK_NOTHROW(of(2, "  gradient_accumulation_steps: 1\n"));
  for (const char* more :
       {"  offload_optimizer_device: cpu\n", "  gradient_accumulation_steps: 4\n"}) {
    CAPTURE(more);
    CHECK(test::ids(refused("accelerate", text(2, more))) == Ids{"exchange.lost"});
  }
  CHECK_FALSE(refused("accelerate", "distributed_type: DEEPSPEED\nnum_processes: 8\n").ok());
}

TEST_CASE("torchtitan: a global batch that follows from the launcher's ranks is not guessed",
          "[exchange]") {
  const Imported in = imported(framework("torchtitan"),
                               "[parallelism]\npipeline_parallel_degree = 4\n"
                               "[training]\nlocal_batch_size = 8\n");
  CHECK(in.plan.train.global_batch_size == 0);
  CHECK_THAT(in.notes.back(), Catch::Contains("global_batch_size"));
}
