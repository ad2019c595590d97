// Tests the import of keys that change the job. An import either interprets a key as the key's
// framework does, or reports the key as lost.
#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/rules/check.h"
#include "frameworks/exchange_support.h"

using namespace am;
using namespace am::frameworks;
using namespace am::rules;
using am::test::framework;
using am::test::imported;

namespace {

Imported with_model(const char* from, const std::string& text, const std::string& model) {
  const model::ModelConfig config = test::model_of(model);
  Diagnostics found;
  auto in = import_plan(framework(from), text, "file", found, false, &config);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(in.has_value());
  return *std::move(in);
}

const config::FSDP2Config& fsdp2(const Imported& in) {
  const auto* strategy = std::get_if<config::FSDP2Config>(&in.plan.strategy);
  REQUIRE(strategy != nullptr);
  return *strategy;
}

std::vector<std::string> lost_in(const char* from, const std::string& text) {
  Diagnostics found;
  const auto in = import_plan(framework(from), text, "file", found, /*force=*/true);
  std::vector<std::string> keys;
  if (!in.has_value()) return {"refused"};
  for (const Ignored& item : in->lost) keys.push_back(item.key);
  return keys;
}
using Keys = std::vector<std::string>;

bool frees(const Imported& in) {
  const auto& reshard = fsdp2(in).reshard_after_forward;
  return !reshard.has_value() || std::get<bool>(*reshard);
}

}  // namespace

TEST_CASE("nemo-automodel: with experts its own path decides whether layers stay gathered",
          "[exchange]") {
  const Framework& nemo = framework("nemo-automodel");
  const auto recipe = [](const std::string& more) {
    return cat("distributed:\n  dp_size: 16\n", more);
  };
  CHECK_FALSE(frees(imported(nemo, recipe("  ep_size: 8\n"))));
  CHECK(frees(imported(nemo, recipe("  ep_size: 8\n  moe: {reshard_after_forward: true}\n"))));
  CHECK(frees(imported(nemo, recipe("  ep_size: 8\n  reshard_after_forward: true\n"
                                    "  moe: {reshard_after_forward: false}\n"))));
  CHECK(frees(imported(nemo, recipe("  moe: {reshard_after_forward: false}\n"))));

  const auto exported = [&](const char* strategy) {
    const test::ValidPlan plan = test::valid(
        cat("[mesh]\nworld_size = 16\nep_size = 8\n[strategy]\n", strategy), "qwen3-30b-a3b");
    return export_plan(nemo, {plan.plan, plan.model, plan.layout}).text;
  };
  CHECK(frees(imported(nemo, exported(""))));
  CHECK(frees(imported(nemo, exported("reshard_after_forward = true\n"))));
  CHECK_FALSE(frees(imported(nemo, exported("reshard_after_forward = false\n"))));
  CHECK_THAT(exported(""), Catch::Contains("moe:\n    reshard_after_forward: true"));
}

TEST_CASE("nemo-automodel: conversations in files are read with their epochs and validation",
          "[exchange]") {
  const Framework& nemo = framework("nemo-automodel");
  const auto recipe = [](const std::string& path) {
    return cat(
        "step_scheduler:\n  num_epochs: 3\n  val_every_steps: 50\n"
        "packed_sequence:\n  packed_sequence_size: 4096\n"
        "dataset:\n"
        "  _target_: nemo_automodel.components.datasets.llm.ColumnMappedTextInstructionDataset\n"
        "  path_or_dataset_id: ",
        path,
        "\n  answer_only_loss_mask: true\n"
        "  column_mapping: {question: q, answer: a}\n"
        "validation_dataset:\n"
        "  _target_: nemo_automodel.components.datasets.llm.ColumnMappedTextInstructionDataset\n"
        "  path_or_dataset_id: ./held-out.jsonl\n  column_mapping: {question: q, answer: a}\n");
  };
  const config::Plan plan = imported(nemo, recipe("./sums.jsonl")).plan;
  CHECK(plan.data.kind == "chat");
  CHECK(plan.data.path == std::vector<std::string>{"./sums.jsonl"});
  CHECK(plan.data.columns == decltype(plan.data.columns){{"prompt", "q"}, {"completion", "a"}});
  CHECK(plan.data.packing);
  CHECK(plan.train.seq_len == 4096);
  CHECK(plan.train.epochs == 3);
  CHECK(plan.validation.every == 50);
  CHECK(plan.validation.path == std::vector<std::string>{"./held-out.jsonl"});
  CHECK(plan.validation.steps == 0);
  const Imported hub = imported(nemo, recipe("org/sums"));
  CHECK(hub.plan.data.kind == "synthetic");
  CHECK(hub.plan.train.epochs == 0);
}

TEST_CASE("nemo-automodel: layers a stage make stages as AutoModel makes them", "[exchange]") {
  const auto recipe = [](const std::string& pipeline) {
    return cat(
        "distributed:\n  dp_size: 2\n  pp_size: 4\n  pipeline:\n"
        "    pp_schedule: interleaved1f1b\n",
        pipeline, "step_scheduler:\n  global_batch_size: 16\n  local_batch_size: 8\n");
  };
  // The 61 layers are divided into 16 stages: 13 stages of four layers, and three of three layers.
  const Imported in =
      with_model("nemo-automodel", recipe("    layers_per_stage: 4\n"), "deepseek-v3");
  CHECK(in.plan.pipeline.virtual_stages == 4);
  // With two layers per stage there are 31 stages, not a multiple of the four pipeline ranks.
  const auto rounded = [&](const char* how) {
    return with_model("nemo-automodel",
                      recipe(cat("    layers_per_stage: 2\n"
                                 "    round_virtual_stages_to_pp_multiple: ",
                                 how, "\n")),
                      "deepseek-v3")
        .plan.pipeline.virtual_stages;
  };
  CHECK(rounded("up") == 8);
  CHECK(rounded("down") == 7);
  const model::ModelConfig deepseek = test::model_of("deepseek-v3");
  for (const char* wrong : {"    layers_per_stage: 2\n", "    layers_per_stage: 16\n"}) {
    Diagnostics found;
    import_plan(framework("nemo-automodel"), recipe(wrong), "file", found, true, &deepseek);
    CHECK(test::ids(found) == Keys{"exchange.value"});
  }
  CHECK(lost_in("nemo-automodel", recipe("    layers_per_stage: 4\n")) ==
        Keys{"distributed.pipeline.layers_per_stage"});
  // Without a pipeline, AutoModel ignores the keys of the pipeline.
  CHECK(lost_in("nemo-automodel",
                "distributed:\n  dp_size: 2\n  pipeline: {layers_per_stage: 4}\n") == Keys{});
}

TEST_CASE("torchtitan: the embedding and the head count as layers of the ends", "[exchange]") {
  const auto job = [](const std::string& more) {
    return cat("[parallelism]\ndata_parallel_shard_degree = 2\npipeline_parallel_degree = 4\n",
               more, "[training]\nlocal_batch_size = 8\n");
  };
  // 32 layers plus two for embedding and head are divided into 9, 9, 8 and 8. The embedding and the
  // head occupy one of these places each, so the stages have 8, 9, 8 and 7 layers.
  CHECK(with_model("torchtitan", job(""), "llama-3.1-8b").plan.pipeline.split_points ==
        std::vector<int64_t>{8, 17, 25});
  // 16 layers with two per stage are eight stages.
  const Imported in = with_model(
      "torchtitan",
      job("pipeline_parallel_schedule = \"Interleaved1F1B\"\n"
          "pipeline_parallel_layers_per_stage = 2\npipeline_parallel_first_stage_less_layers = 0\n"
          "pipeline_parallel_last_stage_less_layers = 0\n"),
      "llama-3.2-1b");
  CHECK(in.plan.pipeline.virtual_stages == 2);
  CHECK(in.plan.pipeline.split_points.empty());
}

TEST_CASE("torchtitan: replicas without shards are fsdp2 over them", "[exchange]") {
  const Imported flags = imported(framework("torchtitan"),
                                  "--parallelism.data_parallel_replicate_degree 8 "
                                  "--parallelism.data_parallel_shard_degree 1");
  CHECK(flags.plan.mesh.dp_replicate_size == 8);
  CHECK(fsdp2(flags).mp_policy.param_dtype == "bfloat16");
  CHECK(fsdp2(flags).activation_checkpointing == config::ActivationCheckpointing::kSelective);
  // In a job file, replicate degree 8 with shard degree 1 means DDP under autocast.
  const Imported file = imported(framework("torchtitan"),
                                 "[parallelism]\ndata_parallel_replicate_degree = 8\n"
                                 "data_parallel_shard_degree = 1\n");
  CHECK(file.plan.mesh.dp_replicate_size == 8);
  CHECK(fsdp2(file).autocast_dtype == "bfloat16");
  CHECK_FALSE(fsdp2(file).mp_policy.param_dtype.has_value());
  CHECK_FALSE(file.notes.empty());
}

TEST_CASE("torchtitan: batches by their older and newer names", "[exchange]") {
  const Framework& titan = framework("torchtitan");
  const auto micro = [&](const std::string& text) {
    return imported(titan, text).plan.train.micro_batch_size;
  };
  CHECK(micro("[training]\nbatch_size = 16\n") == 16);
  CHECK(micro("[training]\nlocal_batch_size = 4\n") == 4);
  CHECK(micro("[training]\nsteps = 1\n") == 8);
  const Imported tokens = imported(
      titan,
      "--training.num_tokens_per_microbatch_per_dp_rank 8192 --training.max_context_length 4096 "
      "--training.num_tokens_per_train_step 131072 --parallelism.data_parallel_shard_degree 8");
  CHECK(tokens.plan.train.seq_len == 4096);
  CHECK(tokens.plan.train.micro_batch_size == 2);
  CHECK(tokens.plan.train.global_batch_size == 32);
  const Imported rounds = imported(
      titan,
      "--training.num_tokens_per_microbatch_per_dp_rank 4096 "
      "--training.max_context_length 4096 --parallelism.num_pp_microbatches 4 "
      "--parallelism.pipeline_parallel_degree 2 --parallelism.data_parallel_shard_degree 2");
  CHECK(rounds.plan.pipeline.microbatches == 4);
  CHECK(rounds.plan.train.global_batch_size == 8);
}

TEST_CASE("torchtitan: local data and validation", "[exchange]") {
  const Framework& titan = framework("torchtitan");
  const std::string training = "[training]\ndataset = \"c4\"\n";
  const std::string local = "dataset_path = \"/data/c4.jsonl\"\n";
  const std::string validation = "[validation]\nenable = true\ndataset = \"c4_validation\"\n";
  const config::Plan whole =
      imported(titan, training + local + validation + "dataset_path = \"./held_out\"\n").plan;
  CHECK(whole.data.kind == "text");
  CHECK(whole.data.path == std::vector<std::string>{"/data/c4.jsonl"});
  CHECK(whole.validation.path == std::vector<std::string>{"./held_out"});
  CHECK(whole.validation.every == 10);
  CHECK(whole.validation.steps == 0);

  const Imported hub = imported(titan, training + validation + "freq = 500\nsteps = 1200\n");
  CHECK(hub.plan.data.kind == "synthetic");
  CHECK(hub.plan.validation.every == 500);
  CHECK(hub.plan.validation.steps == 1200);
  CHECK(join(hub.notes, "\n").find("data set c4 of the hub") != std::string::npos);
  CHECK(imported(titan, training + validation).plan.validation.steps == 8);
  CHECK(imported(titan, training + "[validation]\nfreq = 5\n").plan.validation.every == 0);

  const Imported half = imported(titan, training + local + validation);
  CHECK(half.plan.validation.every == 0);
  CHECK(join(half.notes, "\n").find("the plan has no validation") != std::string::npos);
}

TEST_CASE("accelerate: FSDP1's sharding strategies are layouts", "[exchange]") {
  const auto of = [](const std::string& strategy) {
    return imported(framework("accelerate"),
                    cat("distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\nfsdp_config:\n"
                        "  fsdp_sharding_strategy: ",
                        strategy, "\n"));
  };
  for (const char* full : {"FULL_SHARD", "1"}) {
    CHECK(frees(of(full)));
    CHECK(of(full).plan.mesh.dp_replicate_size == 1);
  }
  for (const char* kept : {"SHARD_GRAD_OP", "2"}) CHECK_FALSE(frees(of(kept)));
  for (const char* none : {"NO_SHARD", "3"}) CHECK(of(none).plan.mesh.dp_replicate_size == 16);
  for (const char* hybrid : {"HYBRID_SHARD", "4"}) {
    CHECK(of(hybrid).plan.mesh.dp_replicate_size == 2);
    CHECK(frees(of(hybrid)));
  }
  CHECK_FALSE(frees(of("HYBRID_SHARD_ZERO2")));
  CHECK(lost_in("accelerate",
                "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n"
                "  fsdp_auto_wrap_policy: NO_WRAP\n") == Keys{"fsdp_config.fsdp_auto_wrap_policy"});
}

TEST_CASE("what describes no job is never lost", "[exchange]") {
  const std::string recipe =
      "distributed:\n  dp_size: 2\nci:\n  ep_size: 64\n  tp_size: 2\nwandb: {tp_size: 4}\n"
      "slurm: {pp_size: 2}\nbenchmark: {num_nodes: 4}\n"
      "checkpoint: {dequantize_base_checkpoint: true}\n";
  CHECK(lost_in("nemo-automodel", recipe) == Keys{});
  CHECK(lost_in("megatron",
                "--num-layers 2 --rl-inference-tensor-model-parallel-size 4 "
                "--wandb-project x") == Keys{});
}

TEST_CASE("what changes the job is lost by its name", "[exchange]") {
  struct Case {
    const char* from;
    std::string text;
    const char* key;
  };
  const std::string nemo = "distributed:\n  dp_size: 2\n";
  const std::string titan = "[training]\nsteps = 1\n";
  const std::string megatron = "--num-layers 2 ";
  const std::vector<Case> cases = {
      {"nemo-automodel", nemo + "optimizer: {_target_: a.FusedAdam, exp_avg_dtype: torch.bfloat16}",
       "optimizer.exp_avg_dtype"},
      {"nemo-automodel", nemo + "optimizer: {_target_: a.FusedAdam, master_weight_bits: 24}",
       "optimizer.master_weight_bits"},
      {"nemo-automodel", nemo + "teacher_model: {pretrained_model_name_or_path: x}",
       "teacher_model.pretrained_model_name_or_path"},
      {"nemo-automodel", nemo + "freeze_config: {freeze_language_model: true}",
       "freeze_config.freeze_language_model"},
      {"nemo-automodel", "distributed:\n  ep_size: 2\n  moe: {lm_head_precision: float32}",
       "distributed.moe.lm_head_precision"},
      {"nemo-automodel", nemo + "model: {backend: {te_fp8: {recipe: mxfp8}}}",
       "model.backend.te_fp8.recipe"},
      {"torchtitan", titan + "[optimizer]\nearly_step_in_backward = true\n",
       "optimizer.early_step_in_backward"},
      {"torchtitan", titan + "[fault_tolerance]\nenable = true\n", "fault_tolerance.enable"},
      {"torchtitan", titan + "[experimental]\npipeline_parallel_split_points = [\"layers.4\"]\n",
       "experimental.pipeline_parallel_split_points"},
      {"megatron", megatron + "--rampup-batch-size 16 16 100", "--rampup-batch-size"},
      {"megatron",
       megatron + "--use-megatron-fsdp --recompute-granularity full --recompute-method block",
       "--recompute-method"},
      {"megatron",
       megatron +
           "--use-megatron-fsdp --recompute-granularity selective --recompute-modules moe mlp",
       "--recompute-modules"},
      {"megatron", megatron + "--mtp-num-layers 1", "--mtp-num-layers"},
      {"megatron", megatron + "--outer-dp-sharding-strategy optim", "--outer-dp-sharding-strategy"},
      {"megatron",
       megatron + "--use-megatron-fsdp --tensor-model-parallel-size 2 "
                  "--sequence-parallel",
       "--sequence-parallel"},
      {"deepspeed", R"({"train_batch_size": 8, "data_types": {"grad_accum_dtype": "fp32"}})",
       "data_types.grad_accum_dtype"},
      {"deepspeed", R"({"train_batch_size": 8, "fp16": {"fp16_master_weights_and_grads": true}})",
       "fp16.fp16_master_weights_and_grads"},
      {"deepspeed",
       R"({"train_batch_size": 8, "activation_checkpointing": {"cpu_checkpointing": true}})",
       "activation_checkpointing.cpu_checkpointing"},
      {"deepspeed", R"({"train_batch_size": 8, "elasticity": {"enabled": true}})",
       "elasticity.enabled"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.from, one.text);
    CHECK(lost_in(one.from, one.text) == Keys{one.key});
  }
}

TEST_CASE("the model's name is held against the model", "[exchange]") {
  const model::ModelConfig llama = test::model_of("llama-3.1-8b");
  const auto differs = [&](const char* from, const std::string& text) {
    Diagnostics found;
    compare_model(imported(framework(from), text), llama, found);
    return !found.ok();
  };
  const auto recipe = [](const char* name) {
    return cat("distributed:\n  dp_size: 2\nmodel:\n  pretrained_model_name_or_path: ", name, "\n");
  };
  for (const char* right : {"meta-llama/Llama-3.1-8B-Instruct", "/data/my-llama-8b/", "own/model",
                            "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "tiiuae/Falcon3-7B-Base"}) {
    CAPTURE(right);
    CHECK_FALSE(differs("nemo-automodel", recipe(right)));
  }
  for (const char* wrong : {"Qwen/Qwen3-8B", "meta-llama/Llama-3.1-70B", "google/gemma-3-4b",
                            "meta-llama/Llama-4-Scout-17B-16E", "mistralai/Mixtral-8x7B-v0.1"}) {
    CAPTURE(wrong);
    CHECK(differs("nemo-automodel", recipe(wrong)));
  }
  const auto job = [](const char* name, const char* flavor) {
    return cat("[training]\nsteps = 1\n[model]\nname = \"", name, "\"\nflavor = \"", flavor,
               "\"\n");
  };
  CHECK_FALSE(differs("torchtitan", job("llama3", "8B")));
  CHECK(differs("torchtitan", job("llama3", "405B")));
  CHECK(differs("torchtitan", job("llama4", "17bx16e")));
  CHECK(differs("accelerate",
                "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n"
                "  fsdp_transformer_layer_cls_to_wrap: Qwen2DecoderLayer\n"));
  CHECK(differs("nemo-automodel", "distributed:\n  dp_size: 2\nmodel: {num_hidden_layers: 2}\n"));
}

TEST_CASE("nemo-automodel: Megatron-FSDP's newer check of gradients is a plan's", "[exchange]") {
  const auto checks = [](const char* more) {
    const Imported in = imported(framework("nemo-automodel"),
                                 cat("distributed:\n  strategy: megatron_fsdp\n", more));
    return std::get<config::MegatronFSDPConfig>(in.plan.strategy).report_nan_in_param_grad;
  };
  CHECK_FALSE(checks(""));
  CHECK(checks("  report_nan_in_param_grad: true\n  check_for_nan_in_grad: false\n"));
}

TEST_CASE("a warm-up is no longer than the job, where a file counts no steps", "[exchange]") {
  const Imported in =
      imported(framework("nemo-automodel"),
               "distributed:\n  dp_size: 2\nlr_scheduler: {lr_warmup_steps: 700}\n");
  CHECK(in.plan.train.max_steps == 700);
  CHECK_FALSE(in.notes.empty());
}

TEST_CASE("nemo-automodel: a warm-up longer than the job is lost, and shortened", "[exchange]") {
  const std::string recipe =
      "distributed:\n  dp_size: 2\nstep_scheduler: {max_steps: 32}\n"
      "lr_scheduler: {lr_warmup_steps: 50}\n";
  CHECK(lost_in("nemo-automodel", recipe) == Keys{"lr_scheduler.lr_warmup_steps"});
  Diagnostics found;
  const auto in = import_plan(framework("nemo-automodel"), recipe, "file", found, /*force=*/true);
  REQUIRE(in.has_value());
  CHECK(in->plan.scheduler.warmup_steps == 32);
  CHECK(lost_in("megatron", "--num-layers 2 --train-iters 10 --lr-warmup-iters 20") ==
        Keys{"--lr-warmup-iters"});
}

TEST_CASE("torchtitan: a warm-up and a decay are shortened to the job, as torchtitan does it",
          "[exchange]") {
  const auto schedule = [](const std::string& more) {
    return imported(framework("torchtitan"), "[training]\nsteps = 200\n" + more).plan.scheduler;
  };
  CHECK(schedule("").warmup_steps == 200);
  CHECK(schedule("warmup_steps = 2\n").warmup_steps ==
        2);  // torchtitan's versions of 2024 read warmup_steps in [training]
  const config::SchedulerSection decayed =
      schedule("[lr_scheduler]\nwarmup_steps = 100\ndecay_ratio = 0.8\n");
  CHECK(decayed.warmup_steps == 100);
  CHECK(decayed.decay_steps == 100);
  CHECK(imported(framework("torchtitan"), "[training]\nsteps = 10\n").plan.scheduler.warmup_steps ==
        10);
}

TEST_CASE("nemo-automodel: a vocabulary and heads of another size are another model",
          "[exchange]") {
  const model::ModelConfig llama = test::model_of("llama-3.1-8b");
  const auto rules = [&](const std::string& sizes) {
    Diagnostics found;
    const auto in = import_plan(framework("nemo-automodel"),
                                cat("distributed: {dp_size: 2}\nmodel: {config: {", sizes, "}}\n"),
                                "file", found, false, &llama);
    REQUIRE(in.has_value());
    compare_model(*in, llama, found, false);
    return test::ids(found);
  };
  CHECK(rules("vocab_size: 128256, head_dim: 128") == Keys{});
  CHECK(rules("vocab_size: 256") == Keys{"exchange.model"});
  CHECK(rules("head_dim: 64") == Keys{"exchange.model"});
}

TEST_CASE("nemo-automodel: none is null wherever it stands", "[exchange]") {
  const Imported in = imported(framework("nemo-automodel"),
                               "distributed:\n  dp_size: 2\nstep_scheduler: {max_steps: None}\n"
                               "checkpoint: {checkpoint_dir: none}\noptimizer: [{lr: none}]\n");
  CHECK(in.plan.train.max_steps == config::Plan().train.max_steps);
  CHECK(in.plan.checkpoint.dir == config::Plan().checkpoint.dir);
}

TEST_CASE("nemo-automodel: recipes of other models than a plan's are named", "[exchange]") {
  const auto recipe = [](const std::string& kind, const std::string& target) {
    return cat("recipe: ", kind, "\nmodel: {_target_: nemo_automodel.", target,
               ".from_pretrained}\ndistributed: {dp_size: 2}\n");
  };
  const std::string kind = "TrainFinetuneRecipeForNextTokenPrediction";
  CHECK(lost_in("nemo-automodel", recipe(kind, "NeMoAutoModelForCausalLM")) == Keys{});
  for (const char* other :
       {"NeMoAutoModelBiEncoder", "NeMoAutoModelCrossEncoder",
        "NeMoAutoModelForSequenceClassification", "NeMoAutoDiffusionPipeline"}) {
    CHECK(lost_in("nemo-automodel", recipe(kind, other)) == Keys{"model._target_"});
  }
  CHECK(lost_in("nemo-automodel", recipe("{_target_: a.b.TrainDiffusionRecipe}",
                                         "NeMoAutoModelForCausalLM")) == Keys{"recipe._target_"});
  const Imported in = imported(framework("nemo-automodel"),
                               recipe("FinetuneRecipeForVLM", "NeMoAutoModelForImageTextToText"));
  REQUIRE_FALSE(in.notes.empty());
  CHECK_THAT(in.notes.front(), Catch::Contains("only the text model"));
}

TEST_CASE("megatron: a program for another model is named", "[exchange]") {
  CHECK(lost_in("megatron", "torchrun pretrain_gpt.py --num-layers 2") == Keys{});
  CHECK(lost_in("megatron", "torchrun pretrain_bert.py --num-layers 2") == Keys{"the program"});
}

TEST_CASE("a shell script that holds a program is no Python program", "[exchange]") {
  const auto message = [](const std::string& text) {
    Diagnostics found;
    CHECK_FALSE(import_plan(framework("megatron"), text, "file", found));
    REQUIRE_FALSE(found.empty());
    return found.items().front().message;
  };
  const std::string program = "import os\nprint(os.getcwd())\n";
  CHECK(message(program) == "this is a Python program, which is not run");
  CHECK(message("#!/usr/bin/env python3\n" + program) ==
        "this is a Python program, which is not run");
  CHECK(message(cat("#!/bin/bash\npython3 - <<'E'\n", program, "E\n")) !=
        "this is a Python program, which is not run");
}
