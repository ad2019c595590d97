// Megatron-LM: the command line of its training script, behind torchrun's. Reading is
// megatron_reader.cpp.
#include "am/planner/exchange/megatron.h"

#include <array>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/planner/exchange/facts.h"
#include "am/planner/exchange/frameworks.h"
#include "am/planner/exchange/words.h"
#include "am/planner/precision.h"

namespace am::planner {
namespace {

constexpr std::array<Reason, 20> kReasons = {{
    {"model.freeze_params", "the model's code freezes"},
    {"strategy.shard_placement.", "Megatron cuts flat buffers"},
    {"strategy.ignored_params", "Megatron shards every parameter"},
    {"mesh.dp_replicate_size", "it would need the outer sharding of Megatron-FSDP"},
    {"pipeline.schedule", "Megatron runs 1F1B, interleaved with virtual stages"},
    {"pipeline.microbatches", "Megatron runs all micro-batches of a step in one round"},
    {"strategy.tp_plan", "Megatron's layers bring their own tensor parallelism"},
    {"strategy.name", "Megatron has no such sharding with these sizes"},
    {"strategy.mp_policy.", "Megatron computes in one dtype, and reduces in it or in float32"},
    {"strategy.reshard_after_forward", "Megatron's FSDP decides it"},
    {"strategy.offload_policy", "Megatron offloads in other terms"},
    {"strategy.activation_checkpointing", "selective recomputation in Megatron means attention"},
    {"strategy.activation_checkpointing_every", "Megatron counts layers from the other end"},
    {"strategy.enable_compile", "Megatron fuses by hand"},
    {"model.weights", "Megatron loads its own checkpoints"},
    {"model.dtype", "Megatron stores what it computes with, and float32 in the optimizer"},
    {"model.seed", "Megatron has one seed: the data's was written"},
    {"checkpoint.keep", "Megatron keeps all checkpoints"},
    {"checkpoint.export", "Megatron exports with a tool of its own"},
    {"checkpoint.dir", "no checkpoint is written"},
}};

class Writer {
 public:
  explicit Writer(const ExportInput& input) : input_(input), facts_(input), plan_(input.plan) {}

  Exported run() {
    add_sizes();
    add_strategy();
    add_precision();
    add_training();
    add_model();
    std::string text = cat("torchrun --nnodes=", facts_.nodes(),
                           " --nproc-per-node=", facts_.ranks_per_node(), " pretrain_gpt.py");
    for (const std::string& flag : flags_) text += cat(" \\\n  ", flag);
    out_.text = text + "\n";
    return std::move(out_);
  }

 private:
  void flag(std::string_view name) { flags_.push_back(cat("--", name)); }
  void flag(std::string_view name, int64_t value) { flags_.push_back(cat("--", name, " ", value)); }
  void flag(std::string_view name, double value) {
    flags_.push_back(cat("--", name, " ", dump_json(Json(value), -1)));
  }
  void flag(std::string_view name, const std::string& value) {
    flags_.push_back(cat("--", name, " ", shell_word(value)));
  }

  void add_sizes() {
    const mesh::MeshSizes& mesh = facts_.mesh;
    flag("tensor-model-parallel-size", mesh.tp);
    if (facts_.fsdp2 != nullptr && facts_.fsdp2->sequence_parallel && mesh.tp > 1) {
      flag("sequence-parallel");
    }
    flag("pipeline-model-parallel-size", mesh.pp);
    flag("context-parallel-size", mesh.cp);
    if (mesh.ep > 1) flag("expert-model-parallel-size", mesh.ep);
    if (mesh.pp > 1) add_stages();
  }

  void add_stages() {
    const int64_t count = static_cast<int64_t>(facts_.stages.size());
    if (plan_.pipeline.split_points.empty() && input_.model.num_hidden_layers % count == 0) {
      if (count > facts_.mesh.pp) {
        flag("num-virtual-stages-per-pipeline-rank", count / facts_.mesh.pp);
      }
      return;
    }
    std::vector<std::string> parts;
    for (const auto& [first, end] : facts_.stages) {
      parts.emplace_back(static_cast<size_t>(end - first), 't');
    }
    parts.front().insert(0, "E");
    parts.back() += "L";
    flag("pipeline-model-parallel-layout", join(parts, "|"));
  }

  void add_strategy() {
    if (facts_.ddp != nullptr) return;  // Megatron's own when no other is asked for
    if (facts_.megatron != nullptr) {
      add_megatron_fsdp(*facts_.megatron);
    } else if (facts_.mesh.pp == 1 && facts_.mesh.ep == 1 && !input_.model.tie_word_embeddings) {
      flag("use-torch-fsdp2");
      flag("ckpt-format", std::string("torch_dist"));
    } else {
      flag("use-distributed-optimizer");
      out_.lost.push_back({"strategy.name", "\"fsdp2\"",
                           "with pipelines, experts or tied embeddings Megatron has no FSDP2: its "
                           "distributed optimizer cuts the optimizer's states alone"});
    }
    if (facts_.mesh.dp_replicate > 1) {
      out_.notes.push_back("parameters are sharded over all of dp, not inside of each replica");
    }
  }

  void add_megatron_fsdp(const config::MegatronFSDPConfig& config) {
    flag("use-megatron-fsdp");
    flag("ckpt-format", std::string("fsdp_dtensor"));
    flag("data-parallel-sharding-strategy",
         std::string(kMegatronSharding[static_cast<size_t>(config.zero_dp_strategy)]));
    if (config.overlap_grad_reduce) flag("overlap-grad-reduce");
    if (config.overlap_param_gather) flag("overlap-param-gather");
    if (config.grad_reduce_in_fp32) flag("accumulate-allreduce-grads-in-fp32");
    if (!config.check_for_nan_in_grad) flag("no-check-for-nan-in-loss-and-grad");
    if (config.average_in_collective) flag("ddp-average-in-collective");
    if (config.calculate_per_token_loss) flag("calculate-per-token-loss");
    if (config.keep_fp8_transpose_cache) flag("keep-fp8-transpose-cache");
    if (config.nccl_ub) flag("use-nccl-ub");
    if (config.fsdp_double_buffer) flag("fsdp-double-buffer");
    if (config.init_fsdp_with_meta_device) flag("init-model-with-meta-device");
  }

  void add_precision() {
    const StepPrecision precision = resolve_precision(plan_);
    if (precision.compute == "bfloat16") flag("bf16");
    if (precision.compute == "float16") flag("fp16");
    if (facts_.fsdp2 != nullptr && precision.compute != "float32" &&
        precision.reduce == "float32") {
      flag("accumulate-allreduce-grads-in-fp32");
    }
    if (facts_.checkpoints) {
      const bool selective =
          facts_.fsdp2 != nullptr &&
          facts_.fsdp2->activation_checkpointing == config::ActivationCheckpointing::kSelective;
      flag("recompute-granularity", std::string(selective ? "selective" : "full"));
      if (!selective) {
        flag("recompute-method", std::string("uniform"));
        flag("recompute-num-layers", int64_t{1});
      }
    }
    if (const auto& backend = backend_of(plan_)) flag("distributed-backend", *backend);
  }

  static std::optional<std::string> backend_of(const config::Plan& plan) {
    return std::visit([](const auto& config) { return config.backend; }, plan.strategy);
  }

  void add_training() {
    flag("micro-batch-size", plan_.train.micro_batch_size);
    flag("global-batch-size", facts_.global_batch);
    flag("seq-length", plan_.train.seq_len);
    flag("train-iters", plan_.train.max_steps);
    flag("seed", plan_.train.seed);
    flag("clip-grad", plan_.train.max_grad_norm);
    flag("optimizer", std::string("adam"));
    flag("lr", plan_.optimizer.lr);
    flag("adam-beta1", plan_.optimizer.betas[0]);
    flag("adam-beta2", plan_.optimizer.betas[1]);
    flag("adam-eps", plan_.optimizer.eps);
    flag("weight-decay", plan_.optimizer.weight_decay);
    add_scheduler();
    flag("log-interval", plan_.metrics.every);
    if (!plan_.checkpoint.dir.empty()) flag("save", plan_.checkpoint.dir);
    if (plan_.checkpoint.every > 0) flag("save-interval", plan_.checkpoint.every);
    if (plan_.checkpoint.async) flag("async-save");
  }

  void add_scheduler() {
    const config::SchedulerSection& scheduler = plan_.scheduler;
    flag("lr-decay-style", scheduler.name == "wsd" ? std::string("WSD") : scheduler.name);
    flag("lr-warmup-iters", scheduler.warmup_steps);
    flag("min-lr", scheduler.min_lr);
    if (scheduler.name == "wsd") {
      flag("lr-wsd-decay-style", std::string("linear"));
      flag("lr-wsd-decay-iters", scheduler.decay_steps);
    } else if (scheduler.name != "constant" && scheduler.decay_steps > 0) {
      flag("lr-decay-iters", scheduler.decay_steps);
    }
  }

  void add_model() {
    const model::ModelConfig& model = input_.model;
    flag("num-layers", model.num_hidden_layers);
    flag("hidden-size", model.hidden_size);
    if (model.intermediate_size > 0) flag("ffn-hidden-size", model.intermediate_size);
    flag("num-attention-heads", model.num_attention_heads);
    if (model.num_key_value_heads != model.num_attention_heads) {
      flag("group-query-attention");
      flag("num-query-groups", model.num_key_value_heads);
    }
    if (model.head_dim > 0) flag("kv-channels", model.head_dim);
    flag("max-position-embeddings", std::max(model.max_position_embeddings, plan_.train.seq_len));
    flag("vocab-size", model.vocab_size);
    if (model.moe.has_value()) {
      flag("num-experts", model.moe->experts);
      flag("moe-router-topk", model.moe->experts_per_token);
      flag("moe-ffn-hidden-size", model.moe->expert_width);
    }
    if (!model.norm_bias) flag("normalization", std::string("RMSNorm"));
    if (model.gated_mlp) flag("swiglu");
    if (!model.tie_word_embeddings) flag("untie-embeddings-and-output-weights");
    out_.notes.push_back(
        "of the model only the sizes are written: add its rotary embedding, "
        "biases, tokenizer and data");
  }

  const ExportInput& input_;
  Facts facts_;
  const config::Plan& plan_;
  std::vector<std::string> flags_;
  Exported out_;
};

Exported write(const ExportInput& input) { return Writer(input).run(); }

}  // namespace

const Framework kMegatron = {.name = "megatron",
                             .title = "Megatron-LM",
                             .format = "a command line",
                             .has_flags = false,
                             .reasons = kReasons,
                             .write = write,
                             .read = read_megatron};

}  // namespace am::planner
