// Tests the values in the files that are exported for each framework, and the plans that are
// imported from files of each framework.
#include <catch2/catch.hpp>
#include <map>

#include "frameworks/exchange_support.h"

using namespace am;
using namespace am::frameworks;
using am::test::framework;
using am::test::imported;
using am::test::lost_keys;
using am::test::valid;

TEST_CASE("torchtitan: the keys of a job file", "[exchange]") {
  const test::ValidPlan plan = valid(
      "[mesh]\nworld_size = 16\ntp_size = 2\npp_size = 2\ndp_replicate_size = 2\n"
      "[pipeline]\nmicrobatches = 4\n[train]\nglobal_batch_size = 32\nmicro_batch_size = 2\n"
      "[strategy]\nname = \"fsdp2\"\nsequence_parallel = true\n");
  const Exported out = export_plan(framework("torchtitan"), {plan.plan, plan.model, plan.layout});
  for (const char* line :
       {"[parallelism]", "data_parallel_replicate_degree = 2", "data_parallel_shard_degree = 2",
        "tensor_parallel_degree = 2", "pipeline_parallel_degree = 2",
        "pipeline_parallel_schedule = \"1F1B\"", "pipeline_parallel_microbatch_size = 2",
        "local_batch_size = 8", "global_batch_size = 32", "mode = \"none\""}) {
    CAPTURE(line, out.text);
    CHECK(out.text.find(cat("\n", line, "\n")) != std::string::npos);
  }
  CHECK(out.text.find("[\"layers.16\", \"layers.17\"") != std::string::npos);
}

TEST_CASE("torchtitan: what a job file leaves out is torchtitan's default", "[exchange]") {
  const Imported in = imported(framework("torchtitan"),
                               "[parallelism]\ndata_parallel_shard_degree = 8\n"
                               "[experimental]\ncustom_import = \"x\"\n");
  CHECK(in.plan.mesh.world_size == 8);
  CHECK(in.plan.train.micro_batch_size == 8);
  CHECK(in.plan.optimizer.lr == 8e-4);
  CHECK(in.plan.scheduler.warmup_steps == 200);
  const auto& fsdp2 = std::get<config::FSDP2Config>(in.plan.strategy);
  CHECK(fsdp2.activation_checkpointing == config::ActivationCheckpointing::kSelective);
  REQUIRE(in.ignored.size() == 1);
  CHECK(in.ignored[0].key == "experimental.custom_import");
  CHECK(in.ignored[0].value == "\"x\"");
}

TEST_CASE("torchtitan: flags with and without a launcher before them", "[exchange]") {
  const Imported in = imported(
      framework("torchtitan"),
      "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 \\\n"
      "  --parallelism.data_parallel_shard_degree 4 --parallelism.tensor-parallel-degree=2 \\\n"
      "  --parallelism.no_enable_sequence_parallel --training.seq_len 8192 "
      "activation_checkpoint:full\n");
  CHECK(in.plan.mesh.world_size == 8);
  CHECK(in.plan.mesh.tp_size == 2);
  CHECK(in.plan.train.seq_len == 8192);
  const auto& fsdp2 = std::get<config::FSDP2Config>(in.plan.strategy);
  CHECK_FALSE(fsdp2.sequence_parallel);
  CHECK(fsdp2.activation_checkpointing == config::ActivationCheckpointing::kFull);
}

TEST_CASE("megatron: arguments and a pipeline's layout", "[exchange]") {
  const Imported in =
      imported(framework("megatron"),
               "# two nodes\ntorchrun --nproc_per_node 8 --nnodes=2 pretrain_gpt.py \\\n"
               "  --tensor-model-parallel-size 2 --sequence-parallel \\\n"
               "  --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout "
               "'E(t|)*3,tt|t*2|tt|tL|' "
               "--use-distributed-optimizer --bf16 --micro-batch-size 1 --global-batch-size 64 "
               "--lr 1e-4 --adam-beta2 .95 --swiglu --unknown-thing 3 4\n");
  CHECK(in.plan.mesh.world_size == 16);
  CHECK(in.plan.mesh.dp_size == 2);
  CHECK(in.plan.mesh.ranks_per_node == 8);
  CHECK(in.plan.pipeline.virtual_stages == 2);
  CHECK(in.plan.pipeline.schedule == "interleaved_1f1b");
  CHECK(in.plan.pipeline.split_points == std::vector<int64_t>{1, 2, 3, 5, 7, 9, 10});
  CHECK(in.plan.pipeline.microbatches == 32);
  CHECK(in.plan.optimizer.lr == 1e-4);
  CHECK(in.plan.optimizer.betas[1] == 0.95);
  const auto& megatron = std::get<config::MegatronConfig>(in.plan.strategy);
  CHECK(megatron.sequence_parallel);
  CHECK(megatron.zero == 1);
  CHECK_FALSE(megatron.overlap_grad_reduce);
  CHECK(in.plan.cluster.implementation == "megatron");
  REQUIRE_FALSE(in.notes.empty());
  std::set<std::string> ignored;
  for (const Ignored& item : in.ignored) ignored.insert(item.key);
  CHECK(ignored.count("--swiglu") == 1);
  CHECK(ignored.count("--unknown-thing") == 1);
}

TEST_CASE("megatron: backslashes in words mean what they mean to a shell", "[exchange]") {
  const Imported in =
      imported(framework("megatron"),
               "--num-layers 2 --micro-\\\nbatch-size 3 --lr 1e\\\r\n-4 --plain a\\b "
               "--quoted \"a\\d\\\\\\\"\\$x\\\ny\" --single 'a\\b'\n");
  CHECK(in.plan.train.micro_batch_size == 3);
  CHECK(in.plan.optimizer.lr == 1e-4);
  std::map<std::string, Json> values;
  for (const Ignored& item : in.ignored) values[item.key] = Json::parse(item.value);
  CHECK(values["--plain"] == "ab");
  CHECK(values["--quoted"] == "a\\d\\\"$xy");
  CHECK(values["--single"] == "a\\b");
}

TEST_CASE("megatron: the sharding strategy applies only with Megatron's FSDP", "[exchange]") {
  const auto strategy = [](const std::string& flags) {
    return imported(framework("megatron"),
                    cat("--num-layers 2 --bf16 --data-parallel-sharding-strategy "
                        "optim_grads_params ",
                        flags))
        .plan.strategy;
  };
  const config::DistributedConfig fsdp = strategy("--use-megatron-fsdp");
  CHECK(std::get<config::MegatronFSDPConfig>(fsdp).zero_dp_strategy == 3);
  const config::DistributedConfig sharded = strategy("--use-distributed-optimizer");
  CHECK(std::get<config::MegatronConfig>(sharded).zero == 1);
  CHECK(std::get<config::MegatronConfig>(strategy("")).zero == 0);
}

TEST_CASE("megatron: what is exported for fsdp2 depends on what Megatron has", "[exchange]") {
  const Framework& to = framework("megatron");
  const test::ValidPlan plain = valid("[mesh]\nworld_size = 8\n");
  CHECK(export_plan(to, {plain.plan, plain.model, plain.layout}).text.find("--use-torch-fsdp2") !=
        std::string::npos);
  const test::ValidPlan piped = valid("[mesh]\nworld_size = 8\npp_size = 2\n");
  const Exported out = export_plan(to, {piped.plan, piped.model, piped.layout});
  CHECK(out.text.find("--use-torch-fsdp2") == std::string::npos);
  CHECK(lost_keys(out).count("strategy.name") == 1);
}

TEST_CASE("megatron: recipes of products in FP8 and FP4", "[exchange]") {
  const std::pair<const char*, config::Fp8Recipe> flags[] = {
      {"--fp8-format hybrid", config::Fp8Recipe::kDelayed},
      {"--fp8-format hybrid --fp8-recipe tensorwise", config::Fp8Recipe::kTensorwise},
      {"--fp8-format e4m3 --fp8-recipe blockwise", config::Fp8Recipe::kBlock},
      {"--fp8-format e4m3 --fp8-recipe mxfp8 --fp8-margin 1", config::Fp8Recipe::kMxfp8},
      {"--fp4-format e2m1 --fp4-recipe nvfp4", config::Fp8Recipe::kNvfp4},
      {"", config::Fp8Recipe::kNone},
  };
  for (const auto& [text, recipe] : flags) {
    INFO(text);
    const Imported in =
        imported(framework("megatron"), cat("--num-layers 2 --bf16 --use-distributed-optimizer "
                                            "--num-distributed-optimizer-instances 1 ",
                                            text));
    CHECK(config::fp8_of(in.plan.strategy) == recipe);
    CHECK(in.lost.empty());
    const std::string name(config::spec_of(recipe).name);
    const test::ValidPlan plan = valid(
        cat("[mesh]\nworld_size = 8\n[strategy]\nname = \"megatron\"\nfp8 = \"", name, "\"\n"));
    const Exported out = export_plan(framework("megatron"), {plan.plan, plan.model, plan.layout});
    CHECK(lost_keys(out).count("strategy.fp8") == 0);
    const std::string first = split(text, ' ').front();
    CHECK((out.text.find("--fp8") != std::string::npos ||
           out.text.find("--fp4") != std::string::npos) == !first.empty());
    CHECK(config::fp8_of(imported(framework("megatron"), out.text).plan.strategy) == recipe);
  }
  const test::ValidPlan torchao = valid("[mesh]\nworld_size = 8\n[strategy]\nfp8 = \"rowwise\"\n");
  const Exported out =
      export_plan(framework("megatron"), {torchao.plan, torchao.model, torchao.layout});
  CHECK(lost_keys(out).count("strategy.fp8") == 1);
}

TEST_CASE("megatron: RMSNorm is a flag, LayerNorm is the default", "[exchange]") {
  test::ValidPlan plan = valid("[mesh]\nworld_size = 8\n");
  const auto has_flag = [&] {
    const Exported out = export_plan(framework("megatron"), {plan.plan, plan.model, plan.layout});
    return out.text.find("--normalization RMSNorm") != std::string::npos;
  };
  CHECK(has_flag());
  plan.model.model_type = "cohere";  // its LayerNorms have no bias
  CHECK_FALSE(has_flag());
  plan.model.model_type = "gpt_neox";
  CHECK_FALSE(has_flag());
}

TEST_CASE("nemo-automodel: sizes that are not given are the launcher's", "[exchange]") {
  const std::string text = R"(distributed:
  dp_size:
  tp_size: 2
  pp_size: 2
  activation_checkpointing: 'full'
  pipeline: {pp_schedule: interleaved1f1b, pp_microbatch_size: 2}
step_scheduler:
    global_batch_size: 64
    local_batch_size: 8
custom:
- dim: 8
- [1, "x: y"]
)";
  const Imported in = imported(framework("nemo-automodel"), text);
  CHECK(in.plan.mesh.world_size == 0);
  CHECK(in.plan.mesh.tp_size == 2);
  CHECK(in.plan.pipeline.schedule == "interleaved_1f1b");
  CHECK(in.plan.pipeline.virtual_stages == 2);
  CHECK(in.plan.pipeline.microbatches == 4);
  CHECK(in.plan.train.micro_batch_size == 2);
  REQUIRE(in.ignored.size() == 1);
  CHECK(in.ignored[0].value == R"([{"dim":8},[1,"x: y"]])");
  const auto& fsdp2 = std::get<config::FSDP2Config>(in.plan.strategy);
  CHECK_FALSE(fsdp2.mp_policy.cast_forward_inputs);
}

TEST_CASE("nemo-automodel: low-rank adapters", "[exchange]") {
  const auto recipe = [](const std::string& peft) {
    return cat("distributed:\n  dp_size: 2\npeft:\n  _target_: x.PeftConfig\n  use_triton: true\n",
               peft);
  };
  const Framework& nemo = framework("nemo-automodel");
  const Imported all = imported(nemo, recipe("  match_all_linear: true\n  dim: 16\n  alpha: 48\n"));
  CHECK(all.plan.lora.rank == 16);
  CHECK(all.plan.lora.alpha == 48.0);
  CHECK(all.plan.lora.target_modules == std::vector<std::string>{"all-linear"});
  CHECK(all.ignored.empty());
  CHECK(std::any_of(all.notes.begin(), all.notes.end(), [](const std::string& note) {
    return note.find("including the head") != std::string::npos;
  }));
  // AutoModel's defaults are rank 8 and alpha 32. PEFT's default of alpha is 8.
  const Imported some =
      imported(nemo, recipe("  target_modules: ['q_proj', '*.v_proj']\n  dropout: 0.1\n"));
  CHECK(some.plan.lora.rank == 8);
  CHECK(some.plan.lora.alpha == 32.0);
  CHECK(some.plan.lora.dropout == 0.1);
  CHECK(some.plan.lora.target_modules == std::vector<std::string>{"q_proj", "*.v_proj"});
  // The default of AutoModel is to adapt all modules whose names match *_proj.
  CHECK(imported(nemo, recipe("  dim: 8\n")).plan.lora.target_modules ==
        std::vector<std::string>{"*_proj"});
  CHECK(imported(nemo, recipe("  exclude_modules: ['*vision*', '*lm_head']\n"))
            .plan.lora.target_modules == std::vector<std::string>{"all-linear"});
  for (const char* wrong : {"  exclude_modules: ['*.out_proj']\n",
                            "  match_all_linear: true\n  exclude_modules: ['o_proj']\n"}) {
    Diagnostics found;
    import_plan(nemo, recipe(wrong), "recipe.yaml", found);
    CHECK_FALSE(found.ok());
  }
}

TEST_CASE("accelerate: FSDP's configuration", "[exchange]") {
  const Imported in = imported(framework("accelerate"), R"(compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: false
  fsdp_offload_params: true
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
parallelism_config:
  parallelism_config_dp_replicate_size: 2
  parallelism_config_dp_shard_size: 4
  parallelism_config_tp_size: 2
downcast_bf16: 'no'
)");
  CHECK(in.plan.mesh.world_size == 16);
  CHECK(in.plan.mesh.dp_replicate_size == 2);
  CHECK(in.plan.mesh.ranks_per_node == 8);
  const auto& fsdp2 = std::get<config::FSDP2Config>(in.plan.strategy);
  CHECK(fsdp2.mp_policy.reduce_dtype == "bfloat16");
  CHECK(std::get<bool>(*fsdp2.reshard_after_forward) == false);
  CHECK(fsdp2.offload_policy.has_value());
  CHECK(in.ignored.size() == 1);
}

TEST_CASE("accelerate: sizes state the number of ranks if num_processes is absent", "[exchange]") {
  const Imported in = imported(framework("accelerate"), R"(distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
parallelism_config:
  parallelism_config_dp_shard_size: 4
  parallelism_config_tp_size: 2
)");
  CHECK(in.plan.mesh.world_size == 8);
  CHECK(in.plan.mesh.tp_size == 2);
}

TEST_CASE("exported jobs have as few nodes as hold the ranks in equal parts", "[exchange]") {
  const test::ValidPlan plan =
      valid("[mesh]\nworld_size = 12\nranks_per_node = 8\n[train]\nglobal_batch_size = 12\n");
  const auto text = [&](const char* to) {
    return export_plan(framework(to), {plan.plan, plan.model, plan.layout}).text;
  };
  CHECK_THAT(text("accelerate"), Catch::Contains("num_machines: 2\n"));
  CHECK_THAT(text("megatron"), Catch::StartsWith("torchrun --nnodes=2 --nproc-per-node=6 "));
}

TEST_CASE("deepspeed: stages, batches and what they make of dp", "[exchange]") {
  const Framework& deepspeed = framework("deepspeed");
  const test::ValidPlan plan = valid(
      "[mesh]\nworld_size = 8\ntp_size = 2\n[train]\nglobal_batch_size = 16\n"
      "[strategy]\nname = \"fsdp2\"\noffload_policy = { pin_memory = true }\n");
  const Json json = Json::parse(export_plan(deepspeed, {plan.plan, plan.model, plan.layout}).text);
  CHECK(json["train_batch_size"] == 16);
  CHECK(json["gradient_accumulation_steps"] == 4);
  CHECK(json["zero_optimization"]["stage"] == 3);
  CHECK(json["zero_optimization"]["offload_param"]["device"] == "cpu");
  CHECK(json["tensor_parallel"]["autotp_size"] == 2);
  CHECK(json["bf16"]["enabled"] == true);

  const Imported in = imported(deepspeed, R"({"train_batch_size": 64,
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
    "zero_optimization": {"stage": 2, "overlap_comm": true},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, 0.98]}}})");
  CHECK(in.plan.mesh.dp_size == 8);
  CHECK(in.plan.train.global_batch_size == 64);
  CHECK(std::get<config::MegatronFSDPConfig>(in.plan.strategy).zero_dp_strategy == 2);
  CHECK(in.plan.optimizer.betas[1] == 0.98);
  CHECK(in.plan.optimizer.lr == 1e-3);
  REQUIRE(in.ignored.size() == 1);
  CHECK(in.ignored[0].key == "zero_optimization.overlap_comm");
}

TEST_CASE("optimizers go by each framework's name of them", "[exchange]") {
  const auto plan_with = [](const std::string& optimizer) {
    return test::valid(cat("[mesh]\nworld_size = 8\n[optimizer]\n", optimizer));
  };
  const auto exported_to = [&](const char* name, const std::string& optimizer) {
    const test::ValidPlan of = plan_with(optimizer);
    return export_plan(framework(name), {of.plan, of.model, of.layout});
  };
  const std::string sgd = "name = \"sgd\"\nmomentum = 0.9\nnesterov = true\n";
  const Json deepspeed = Json::parse(exported_to("deepspeed", sgd).text)["optimizer"];
  CHECK(deepspeed["type"] == "SGD");
  CHECK(deepspeed["params"]["momentum"] == 0.9);
  CHECK(deepspeed["params"]["nesterov"] == true);
  CHECK_FALSE(deepspeed["params"].contains("betas"));
  // DeepSpeed's Adam is AdamW by default, so an export of Adam must set adam_w_mode.
  const Json adam = Json::parse(exported_to("deepspeed", "name = \"adam\"\n").text)["optimizer"];
  CHECK(adam["type"] == "Adam");
  CHECK(adam["params"]["adam_w_mode"] == false);
  CHECK(
      imported(framework("deepspeed"), R"({"train_batch_size": 8, "optimizer": {"type": "Adam"}})")
          .plan.optimizer.name == "adamw");
  CHECK(exported_to("nemo-automodel", sgd).text.find("torch.optim.SGD") != std::string::npos);
  CHECK(exported_to("megatron", sgd).text.find("--sgd-momentum 0.9") != std::string::npos);
  CHECK(exported_to("torchtitan", "name = \"adam\"\n").text.find("name = \"Adam\"") !=
        std::string::npos);
  for (const Framework& to : all_frameworks()) {
    INFO(to.name);
    const auto lost = lost_keys(
        exported_to(std::string(to.name).c_str(),
                    "name = \"muon\"\nno_decay = [\"*norm*\"]\n[validation]\nevery = 5\n"));
    CHECK(lost.count("optimizer.name") == 1);
    CHECK(lost.count("optimizer.no_decay") == 1);
    CHECK(lost.count("validation.every") == 1);
  }
}

TEST_CASE("nemo-automodel: a recipe of anchors, merges and text blocks", "[exchange]") {
  const Imported in = imported(framework("nemo-automodel"),
                               "base: &base {tp_size: &two 2, sequence_parallel: true, note: x}\n"
                               "distributed:\n  <<: *base\n  strategy: fsdp2\n  dp_size: 4\n"
                               "  cp_size: *two\n"
                               "model:\n  pretrained_model_name_or_path: >-\n    org/name\n"
                               "comment: |\n  two\n  lines\n");
  CHECK(in.plan.mesh.world_size == 16);
  CHECK(in.plan.mesh.tp_size == 2);
  CHECK(in.plan.mesh.cp_size == 2);
  CHECK(std::get<config::FSDP2Config>(in.plan.strategy).sequence_parallel);
  CHECK(in.plan.model.path == "org/name");
  // Keys that a YAML merge copied from the base section are not reported as lost.
  CHECK(in.lost.empty());
  std::vector<std::string> ignored;
  for (const Ignored& item : in.ignored) ignored.push_back(item.key);
  CHECK(ignored == std::vector<std::string>{"base.note", "distributed.note", "comment"});
}
