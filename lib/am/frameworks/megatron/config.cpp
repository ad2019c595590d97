// Export to Megatron-LM: writes the command line of torchrun and of Megatron's training script. The
// import is in config_reader.cpp.
#include "am/frameworks/megatron/config.h"

#include <algorithm>
#include <array>
#include <span>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/optimizer.h"
#include "am/frameworks/frameworks.h"
#include "am/frameworks/words.h"
#include "am/layout/precision.h"
#include "am/model/family.h"

namespace am::frameworks {
namespace {

constexpr std::array<Reason, 26> kReasons = {{
    {"model.freeze_params", "the model's code decides which parameters are frozen"},
    {"strategy.shard_placement.", "Megatron shards flat buffers, not single parameters"},
    {"strategy.ignored_params", "Megatron shards every parameter"},
    {"mesh.dp_replicate_size",
     "replicas would need the outer data-parallel sharding of Megatron-FSDP, which is not "
     "exported"},
    {"pipeline.schedule", "Megatron runs 1F1B, or interleaved 1F1B with virtual stages"},
    {"pipeline.microbatches", "Megatron runs all micro-batches of a step in one round"},
    {"strategy.tp_plan", "Megatron's layers have built-in tensor parallelism"},
    {"strategy.name", "Megatron does not support this sharding with these mesh sizes"},
    {"strategy.mp_policy.reduce_dtype",
     "Megatron reduces gradients in float32 or the compute dtype, and with FSDP2 only in the "
     "compute dtype"},
    {"strategy.mp_policy.", "Megatron has one dtype for all computation"},
    {"strategy.fp8", "the recipe is torchao's; Megatron has only those of Transformer Engine"},
    {"strategy.reshard_after_forward", "Megatron-FSDP decides this itself"},
    {"strategy.offload_policy", "Megatron's offloading has other options"},
    {"strategy.activation_checkpointing",
     "Megatron's selective recomputation is by module (--recompute-modules), by default only the "
     "core of attention"},
    {"strategy.activation_checkpointing_every",
     "Megatron's --recompute-num-layers selects other layers"},
    {"strategy.recompute_modules",
     "Megatron does not recompute the activation of dense layers alone"},
    {"strategy.activation_offload_fraction",
     "Megatron offloads the activations of modules (--offload-modules), but not those of a dense "
     "feed-forward"},
    {"strategy.enable_compile", "Megatron has hand-written fused kernels instead"},
    {"model.weights", "Megatron loads only its own checkpoints"},
    {"model.dtype",
     "Megatron stores parameters in the compute dtype, and a float32 copy in the optimizer"},
    {"model.seed", "Megatron has one seed, which is set to train.seed"},
    {"optimizer.name", "Megatron has only Adam with decoupled weight decay (AdamW) and SGD"},
    {"optimizer.no_decay", "Megatron applies no weight decay to biases and norms"},
    {"checkpoint.keep", "Megatron keeps all checkpoints"},
    {"checkpoint.export", "Megatron has a separate tool for exports"},
    {"checkpoint.dir", "no checkpoint is written"},
}};

class Writer {
 public:
  explicit Writer(const ExportInput& input) : input_(input), shape_(input), plan_(input.plan) {}

  Exported run() {
    add_sizes();
    add_strategy();
    add_precision();
    add_training();
    add_model();
    std::string text = cat("torchrun --nnodes=", shape_.nodes(),
                           " --nproc-per-node=", shape_.ranks_per_node(), " pretrain_gpt.py");
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
    const mesh::MeshSizes& mesh = shape_.mesh;
    flag("tensor-model-parallel-size", mesh.tp);
    if (config::sequence_parallel(plan_.strategy) && mesh.tp > 1) flag("sequence-parallel");
    flag("pipeline-model-parallel-size", mesh.pp);
    flag("context-parallel-size", mesh.cp);
    if (mesh.ep > 1) flag("expert-model-parallel-size", mesh.ep);
    if (mesh.pp > 1) add_stages();
  }

  void add_stages() {
    const int64_t count = static_cast<int64_t>(shape_.stages.size());
    const auto layers_of = [](const auto& stage) { return stage.second - stage.first; };
    const bool even = std::all_of(
        shape_.stages.begin(), shape_.stages.end(),
        [&](const auto& stage) { return layers_of(stage) == layers_of(shape_.stages.front()); });
    if (even) {
      if (count > shape_.mesh.pp) {
        flag("num-virtual-stages-per-pipeline-rank", count / shape_.mesh.pp);
      }
      return;
    }
    std::vector<std::string> parts;
    for (const auto& [first, end] : shape_.stages) {
      parts.emplace_back(static_cast<size_t>(end - first), 't');
    }
    parts.front().insert(0, "E");
    parts.back() += "L";
    flag("pipeline-model-parallel-layout", join(parts, "|"));
  }

  void add_strategy() {
    if (shape_.ddp != nullptr) return;  // DDP is Megatron's default and needs no flag
    if (shape_.megatron_lm != nullptr) return add_distributed_optimizer(*shape_.megatron_lm);
    if (shape_.megatron != nullptr) {
      add_megatron_fsdp(*shape_.megatron);
    } else if (shape_.mesh.pp == 1 && shape_.mesh.ep == 1 && !input_.model.tie_word_embeddings) {
      flag("use-torch-fsdp2");
      flag("ckpt-format", std::string("torch_dist"));
    } else {
      flag("use-distributed-optimizer");
      flag("overlap-grad-reduce");
      flag("overlap-param-gather");
      out_.lost.push_back(
          {"strategy.name", "\"fsdp2\"",
           "Megatron's FSDP2 does not support pipelines, expert parallelism or tied embeddings; "
           "the exported distributed optimizer shards only the optimizer states"});
    }
    if (shape_.mesh.dp_replicate > 1) {
      out_.notes.push_back("Megatron shards over all of dp, not within each replica");
    }
  }

  // Adds the flags of the strategy megatron. The number of instances of the distributed optimizer
  // is written only if there are several instances, because Megatron's default is 1.
  void add_distributed_optimizer(const config::MegatronConfig& config) {
    if (config.zero > 0) {
      flag("use-distributed-optimizer");
      if (shape_.mesh.dp_replicate > 1) {
        flag("num-distributed-optimizer-instances", shape_.mesh.dp_replicate);
      }
    }
    if (config.zero > 1) {
      out_.lost.push_back({"strategy.zero", "2",
                           "Megatron's distributed optimizer shards only the optimizer states"});
    }
    if (config.etp_size > 0) flag("expert-tensor-parallel-size", config.etp_size);
    if (config.overlap_grad_reduce) flag("overlap-grad-reduce");
    if (config.overlap_param_gather && config.zero > 0) flag("overlap-param-gather");
  }

  void add_megatron_fsdp(const config::MegatronFSDPConfig& config) {
    flag("use-megatron-fsdp");
    flag("ckpt-format", std::string("fsdp_dtensor"));
    flag("data-parallel-sharding-strategy",
         std::string(kMegatronSharding[static_cast<size_t>(config.zero_dp_strategy)]));
    for (const MegatronSwitch& key : kMegatronSwitches) {
      if (shape_.value(key.ours) != Json(key.inverted)) flag(key.theirs);
    }
  }

  void add_precision() {
    const layout::StepPrecision precision = layout::resolve_precision(plan_);
    if (precision.compute == "bfloat16") flag("bf16");
    if (precision.compute == "float16") flag("fp16");
    if (precision.compute == "float16" && precision.reduce == "float32") {
      flag("accumulate-allreduce-grads-in-fp32");
    }
    // With --bf16, Megatron reduces gradients in float32 unless this flag is set.
    if (precision.compute == "bfloat16" && precision.reduce == "bfloat16") {
      flag("grad-reduce-in-bf16");
    }
    if (config::uses_transformer_engine(plan_.strategy)) add_recipe();
    if (shape_.megatron != nullptr && precision.compute != "float32") {
      const bool wide = precision.reduce == "float32";
      flag("megatron-fsdp-main-grads-dtype", std::string(wide ? "fp32" : "auto"));
      flag("megatron-fsdp-main-params-dtype",
           std::string(shape_.megatron->preserve_fp32_weights ? "fp32" : "auto"));
    }
    if (shape_.checkpoints()) {
      const bool selective = shape_.checkpoints_selectively();
      const auto own =
          shape_.megatron_lm != nullptr ? *shape_.megatron_lm : config::MegatronConfig();
      flag("recompute-granularity", std::string(selective ? "selective" : "full"));
      if (!selective) {
        flag("recompute-method", own.recompute_method);
        flag("recompute-num-layers", std::max<int64_t>(1, own.recompute_num_layers));
      } else if (!own.recompute_modules.empty()) {
        flags_.push_back(cat("--recompute-modules ", join(own.recompute_modules, " ")));
      }
    }
    add_keys("strategy.backend");
  }

  void add_recipe() {
    using config::Fp8Recipe;
    const config::Fp8RecipeSpec& recipe = config::spec_of(config::fp8_of(plan_.strategy));
    const bool in_4_bits = recipe.recipe == Fp8Recipe::kNvfp4;
    // Recipes with one scale per tensor need the wider range of e5m2 for gradients, which the
    // format "hybrid" selects.
    const bool hybrid =
        recipe.recipe == Fp8Recipe::kDelayed || recipe.recipe == Fp8Recipe::kTensorwise;
    flag(in_4_bits ? "fp4-format" : "fp8-format", std::string(in_4_bits ? "e2m1"
                                                              : hybrid  ? "hybrid"
                                                                        : "e4m3"));
    flag(in_4_bits ? "fp4-recipe" : "fp8-recipe", std::string(recipe.megatron));
  }

  void add_training() {
    flag("micro-batch-size", plan_.train.micro_batch_size);
    flag("global-batch-size", shape_.global_batch);
    add_keys("train.");
    const bool sgd = plan_.optimizer.name == "sgd";
    flag("optimizer", std::string(sgd ? "sgd" : "adam"));
    add_keys("optimizer.lr");
    if (sgd) {
      flag("sgd-momentum", config::momentum_of(plan_.optimizer));
    } else {
      flag("adam-beta1", plan_.optimizer.betas[0]);
      flag("adam-beta2", plan_.optimizer.betas[1]);
      add_keys("optimizer.eps");
    }
    add_keys("optimizer.weight_decay");
    add_scheduler();
    add_keys("metrics.");
    add_keys("checkpoint.");
  }

  // Adds the flags in kMegatronKeys for plan keys that begin with `ours`.
  void add_keys(std::string_view ours) {
    for (const SharedKey& key : kMegatronKeys) {
      const auto value =
          starts_with(key.ours, ours) ? written_value(key, shape_) : std::optional<Json>();
      if (!value.has_value()) continue;
      if (*value == true) {
        flag(key.theirs);
      } else {
        flag(key.theirs, value->is_string() ? value->get<std::string>() : dump_json(*value, -1));
      }
    }
  }

  void add_scheduler() {
    const config::SchedulerSection& scheduler = plan_.scheduler;
    flag("lr-decay-style", scheduler.name == "wsd" ? std::string("WSD") : scheduler.name);
    add_keys("scheduler.");
    if (scheduler.name == "wsd") {
      flag("lr-wsd-decay-style", std::string("linear"));
      flag("lr-wsd-decay-iters", scheduler.decay_steps);
    } else if (scheduler.name != "constant" && scheduler.decay_steps > 0) {
      flag("lr-decay-iters", scheduler.decay_steps);
    }
  }

  void add_model() {
    const model::ModelConfig& model = input_.model;
    add_sizes_of(model, kMegatronSizes);
    flag("max-position-embeddings", std::max(model.max_position_embeddings, plan_.train.seq_len));
    flag("vocab-size", model.vocab_size);
    add_sizes_of(model, kMegatronExpertSizes);
    if (!model::is_layer_norm(model::family_of(model).norm)) {
      flag("normalization", std::string("RMSNorm"));
    }
    if (model.gated_mlp) flag("swiglu");
    if (!model.tie_word_embeddings) flag("untie-embeddings-and-output-weights");
    out_.notes.push_back(
        "add flags for the model's rotary embedding and biases, and for the tokenizer and the "
        "data, which are not written");
  }

  void add_sizes_of(const model::ModelConfig& model, std::span<const MegatronSize> sizes) {
    for (const MegatronSize& size : sizes) {
      const int64_t value = model_size(model, size.config_key);
      const bool of_groups = size.config_key == "num_key_value_heads";
      if (value == 0 || (of_groups && value == model.num_attention_heads)) continue;
      if (of_groups) flag("group-query-attention");
      flag(size.theirs, value);
    }
  }

  const ExportInput& input_;
  JobShape shape_;
  const config::Plan& plan_;
  std::vector<std::string> flags_;
  Exported out_;
};

Exported write(const ExportInput& input) { return Writer(input).run(); }

}  // namespace

const Framework kMegatron = {.name = "megatron",
                             .title = "Megatron-LM",
                             .format = "a command line",
                             .reasons = kReasons,
                             .write = write,
                             .read = read_megatron};

}  // namespace am::frameworks
