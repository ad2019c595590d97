// Import of Megatron-LM's arguments from a command line.
#include <algorithm>
#include <array>
#include <span>

#include "am/base/text.h"
#include "am/frameworks/frameworks.h"
#include "am/frameworks/megatron/config.h"
#include "am/frameworks/megatron/model_flags.h"
#include "am/frameworks/megatron/pipeline_layout.h"
#include "am/frameworks/words.h"

namespace am::frameworks {
namespace {

class Reader {
 public:
  Reader(Source& source, const model::ModelConfig* model) : source_(source), model_(model) {}

  Imported run() {
    tp_ = source_.size("tensor-model-parallel-size", 1);
    pp_ = source_.size("pipeline-model-parallel-size", 1);
    cp_ = source_.size("context-parallel-size", 1);
    PlanBuilder builder(source_, strategy(), model_);
    read_mesh(builder);
    read_strategy(builder);
    read_precision(builder);
    read_batches(builder);
    if (pp_ > 1) read_stages(builder);
    read_training(builder);
    read_scheduler(builder);
    Imported imported = builder.done(megatron_ignored(source_), "lr-warmup-iters");
    for (Ignored& item : imported.lost) item.key.insert(0, "--");
    imported.geometry = megatron_geometry(source_);
    return imported;
  }

 private:
  bool flag(std::string_view name) { return source_.boolean(name).value_or(false); }

  std::string_view strategy() {
    torch_fsdp2_ = flag("use-torch-fsdp2");
    if (torch_fsdp2_) return "fsdp2";
    megatron_fsdp_ = flag("use-megatron-fsdp") || flag("use-custom-fsdp");
    if (megatron_fsdp_) return "megatron_fsdp";
    distributed_optimizer_ = flag("use-distributed-optimizer");
    return "megatron";
  }

  std::string compute_dtype() {
    return flag("bf16") ? "bfloat16" : flag("fp16") ? "float16" : "float32";
  }

  // Returns the value of torchrun's option `name`, for example "nnodes"; 0 if the option is
  // missing.
  int64_t launcher(const char* name) { return source_.has(name) ? source_.size(name, 0) : 0; }

  void read_mesh(PlanBuilder& builder) {
    const int64_t node = launcher("nproc-per-node");
    const int64_t nodes = std::max<int64_t>(1, launcher("nnodes"));
    const int64_t ep = source_.size("expert-model-parallel-size", 1);
    const int64_t world = saturating_product({node, nodes});
    const int64_t model = saturating_product({tp_, pp_, cp_});
    if (node > 0 && world % model != 0) {
      source_.refuse(
          "nproc-per-node",
          cat(world, " ranks are not a multiple of tensor * pipeline * context parallel = ", model),
          "choose sizes whose product divides the number of ranks");
      return;
    }
    const int64_t dp = node > 0 ? world / model : 0;
    constexpr const char* kInstances = "num-distributed-optimizer-instances";
    const bool has_instances = builder.knows("strategy.zero") && distributed_optimizer_;
    const int64_t instances = has_instances ? source_.size(kInstances, 1) : 1;
    if (dp % instances != 0) {
      source_.refuse(kInstances, cat(dp, " data-parallel ranks are not a multiple of ", instances),
                     "choose a number of instances that divides them");
      return;
    }
    builder.set_mesh({.dp_replicate = {instances, kInstances},
                      .dp_shard = {dp / instances, "nproc-per-node"},
                      .tp = {tp_, "tensor-model-parallel-size"},
                      .pp = {pp_, "pipeline-model-parallel-size"},
                      .cp = {cp_, "context-parallel-size"},
                      .ep = {ep, "expert-model-parallel-size"}});
    if (node > 0) builder.set("mesh.ranks_per_node", node, "nproc-per-node");
    if (tp_ == 1) source_.skip("sequence-parallel");  // without tp the flag has no effect
    if (builder.knows("strategy.sequence_parallel") && flag("sequence-parallel")) {
      builder.set("strategy.sequence_parallel", true, "sequence-parallel");
    }
  }

  void read_strategy(PlanBuilder& builder) {
    if (builder.knows("strategy.zero")) return read_distributed_optimizer(builder);
    if (!builder.knows("strategy.zero_dp_strategy")) return;
    read_zero(builder);
    for (const MegatronSwitch& key : kMegatronSwitches) {
      const bool given = flag(key.theirs);
      if (given || !key.inverted) builder.set(key.ours, given != key.inverted, key.theirs);
    }
  }

  void read_distributed_optimizer(PlanBuilder& builder) {
    const auto switched = [&](const char* theirs, const char* ours) {
      builder.set(ours, flag(theirs), theirs);
    };
    builder.set("strategy.zero", int64_t{distributed_optimizer_ ? 1 : 0},
                "use-distributed-optimizer");
    if (source_.has("expert-tensor-parallel-size")) {
      builder.copy("expert-tensor-parallel-size", "strategy.etp_size");
    }
    source_.skip("data-parallel-sharding-strategy");  // Megatron reads it only with its FSDP
    switched("overlap-grad-reduce", "strategy.overlap_grad_reduce");
    switched("overlap-param-gather", "strategy.overlap_param_gather");
  }

  void read_zero(PlanBuilder& builder) {
    constexpr const char* kKey = "data-parallel-sharding-strategy";
    const std::string named = source_.text(kKey).value_or("no_shard");
    const auto* at = std::find(kMegatronSharding.begin(), kMegatronSharding.end(), named);
    if (at == kMegatronSharding.end()) {
      source_.refuse(kKey, cat("unknown sharding \"", named, "\""),
                     "legal values: no_shard, optim, optim_grads or optim_grads_params");
      return;
    }
    builder.set("strategy.zero_dp_strategy", int64_t{at - kMegatronSharding.begin()}, kKey);
  }

  // Returns torch's name of the dtype in the flag `name`, for example "bfloat16" for "bf16".
  // Returns `absent` if the flag's value is "auto" or if the flag is missing.
  std::string dtype_at(const char* name, const std::string& absent) {
    const std::string word = source_.text(name).value_or("auto");
    if (word == "auto") return absent;
    const auto* known = std::find_if(kMegatronDtypes.begin(), kMegatronDtypes.end(),
                                     [&](const auto& one) { return one.first == word; });
    if (known != kMegatronDtypes.end()) return std::string(known->second);
    source_.refuse(name, cat("plans do not support the dtype \"", word, "\""),
                   "legal values: fp32, bf16, fp16 or auto");
    return absent;
  }

  // Records the flag `name`, which selects the dtype of an optimizer state, as lost if this dtype
  // is not float32. In a plan, all optimizer states are float32.
  void lose_narrow(PlanBuilder& builder, const char* name) {
    if (dtype_at(name, "float32") != "float32") {
      builder.lose(name, "the dtype of the optimizer states, which is float32 in a plan");
    }
  }

  // Returns Megatron's dtype for gradient reduction. With --bf16 the default is float32, and flags
  // can select bfloat16. With --fp16 the default is float16, and flags can select float32.
  std::string reduce_dtype(const std::string& compute) {
    const bool wide = flag("accumulate-allreduce-grads-in-fp32");
    const bool narrow = flag("grad-reduce-in-bf16");
    const std::string main = dtype_at("main-grads-dtype", "float32");
    if (compute == "float32") return compute;
    if (torch_fsdp2_) return compute;  // with PyTorch's FSDP2, Megatron does not set a reduce dtype
    if (megatron_fsdp_ && source_.has("megatron-fsdp-main-grads-dtype")) {
      return dtype_at("megatron-fsdp-main-grads-dtype", compute);
    }
    if (compute == "float16") return wide ? "float32" : compute;
    return narrow ? compute : wide ? "float32" : main;
  }

  void read_precision(PlanBuilder& builder) {
    const std::string dtype = compute_dtype();
    const char* key = dtype == "bfloat16" ? "bf16" : "fp16";
    const std::string reduce = reduce_dtype(dtype);
    for (const char* name : {"main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype"}) {
      lose_narrow(builder, name);
    }
    if (source_.has("megatron-fsdp-grad-comm-dtype") &&
        dtype_at("megatron-fsdp-grad-comm-dtype", reduce) != reduce) {
      builder.lose("megatron-fsdp-grad-comm-dtype", "the dtype in which gradients are reduced");
    }
    if (torch_fsdp2_ && flag("torch-fsdp2-no-reshard-after-forward")) {
      builder.set("strategy.reshard_after_forward", false, "torch-fsdp2-no-reshard-after-forward");
    }
    if (builder.knows("strategy.mp_policy")) {
      builder.set_mp_policy(dtype, reduce, dtype, key);
    } else if (builder.knows("strategy.params_dtype")) {
      builder.set("strategy.params_dtype", dtype, key);
      builder.set("strategy.grad_reduce_in_fp32", reduce == "float32", key);
    } else {
      builder.set("model.dtype", dtype, key);
    }
    if (builder.knows("strategy.preserve_fp32_weights") && dtype != "float32") {
      const std::string weights = dtype_at("megatron-fsdp-main-params-dtype", "float32");
      const bool own = megatron_fsdp_ && source_.text("megatron-fsdp-main-params-dtype") == "auto";
      if (weights != "float32") {
        builder.lose("megatron-fsdp-main-params-dtype",
                     "the dtype of the optimizer's copy of the weights");
      }
      if (megatron_fsdp_ && dtype == "bfloat16" && !source_.has("megatron-fsdp-main-grads-dtype")) {
        builder.note(
            "the newest Megatron-FSDP reduces gradients in --megatron-fsdp-main-grads-dtype "
            "(default: bfloat16); the plan follows earlier versions, which choose the dtype by "
            "--bf16 and its companion flags");
      }
      builder.set("strategy.preserve_fp32_weights", !own, key);
      builder.set("strategy.grad_reduce_in_fp32", reduce == "float32", key);
    }
    read_recipe(builder);
    read_recomputation(builder);
  }

  bool narrow_products() { return source_.has("fp8-format") || source_.has("fp4-format"); }

  // Sets the recipe of matrix products in FP8 or FP4. Skips Megatron's arguments for details of a
  // recipe, for example --fp8-margin.
  void read_recipe(PlanBuilder& builder) {
    const bool in_4_bits = source_.has("fp4-format");
    const bool given = narrow_products();
    const std::string name = source_.text(in_4_bits ? "fp4-recipe" : "fp8-recipe")
                                 .value_or(in_4_bits ? "nvfp4" : "delayed");
    for (const char* detail : {"fp8-format", "fp4-format", "fp8-recipe", "fp4-recipe", "fp8-margin",
                               "fp8-interval", "fp8-amax-history-len", "fp8-amax-compute-algo"}) {
      source_.skip(detail);
    }
    if (!given) return;
    const char* key = in_4_bits ? "fp4-recipe" : "fp8-recipe";
    for (const config::Fp8RecipeSpec& recipe : config::kFp8RecipeSpecs) {
      if (!name.empty() && recipe.megatron == name) {
        builder.set("strategy.fp8", std::string(recipe.name), key);
        return;
      }
    }
    builder.lose(key, "the precision of matrix products (8 or 4 bits)");
  }

  // Sets recompute_modules from the words of the flag `key`.
  void read_modules(PlanBuilder& builder, const char* key) {
    const config::Value* words = source_.take(key);
    if (words == nullptr) return;
    const bool several = words->kind == config::Value::Kind::kArray;
    builder.set("strategy.recompute_modules",
                several ? *words : config::value_of(std::vector{*words}, words->span));
  }

  void read_recomputation(PlanBuilder& builder) {
    constexpr const char* kKey = "recompute-granularity";
    std::string granularity = source_.text(kKey).value_or("");
    if (flag("recompute-activations")) granularity = "selective";
    const std::string method = source_.text("recompute-method").value_or("uniform");
    const int64_t layers = source_.integer("recompute-num-layers").value_or(1);
    constexpr const char* kModules = "recompute-modules";
    if (builder.knows("strategy.recompute_modules")) {
      if (granularity.empty()) return source_.skip(kModules);
      builder.set("strategy.activation_checkpointing", granularity, kKey);
      if (granularity == "selective") return read_modules(builder, kModules);
      builder.set("strategy.recompute_method", method, "recompute-method");
      if (method == "block" || layers != 1) {
        builder.set("strategy.recompute_num_layers", layers, "recompute-num-layers");
      }
      return;
    }
    const bool usual = !source_.has(kModules) || source_.find(kModules)->text == "core_attn";
    source_.skip(kModules);
    if (granularity.empty()) return;
    if (granularity == "full" && (method != "uniform" || layers != 1)) {
      builder.lose(method != "uniform" ? "recompute-method" : "recompute-num-layers",
                   "which layers are recomputed");
    }
    if (granularity == "selective" && !usual) {
      builder.lose(kModules, "which modules are recomputed");
    }
    if (granularity == "selective" && builder.knows("strategy.mp_policy")) {
      builder.set("strategy.activation_checkpointing", "selective", kKey);
    } else if (granularity == "selective") {
      builder.note(
          "Megatron recomputes only attention; this strategy has no selective checkpointing, so "
          "the plan has no activation checkpointing");
    } else {
      builder.set("strategy.activation_checkpointing", true, kKey);
    }
  }

  void read_batches(PlanBuilder& builder) {
    const int64_t micro = source_.integer("micro-batch-size", 1).value_or(1);
    builder.set("train.micro_batch_size", micro, "micro-batch-size");
    builder.copy("global-batch-size", "train.global_batch_size");
    if (!source_.has("train-iters") && source_.has("train-samples")) {
      builder.set("train.max_steps",
                  source_.integer("train-samples", 0).value_or(0) /
                      std::max<int64_t>(1, builder.plan().train.global_batch_size),
                  "train-samples");
    }
    const int64_t dp = builder.plan().mesh.dp_size;
    const int64_t each = saturating_product({micro, std::max<int64_t>(1, dp)});
    const int64_t global = builder.plan().train.global_batch_size;
    if (pp_ > 1 && dp > 0 && global >= each) {
      builder.set("pipeline.microbatches", global / each, "global-batch-size");
    }
  }

  void read_stages(PlanBuilder& builder) {
    constexpr const char* kLayout = "pipeline-model-parallel-layout";
    int64_t per_rank = 1;
    if (const auto layout = source_.text(kLayout)) {
      const auto stages = stages_of_layout(*layout);
      if (!stages.has_value()) {
        source_.refuse(
            kLayout, "the value is not a pipeline layout",
            "write the letters E, t, m and L, | between stages, and repeats: Ett|(tt|)*2,tL");
        return;
      }
      set_stages(builder, *stages, pp_, kLayout);
      per_rank = static_cast<int64_t>(stages->size()) / pp_;
    } else {
      per_rank = virtual_stages(builder);
      builder.set("pipeline.virtual_stages", per_rank, "num-virtual-stages-per-pipeline-rank");
    }
    builder.set("pipeline.schedule", per_rank > 1 ? "interleaved_1f1b" : "1f1b",
                "pipeline-model-parallel-size");
  }

  int64_t virtual_stages(PlanBuilder& builder) {
    constexpr const char* kCount = "num-virtual-stages-per-pipeline-rank";
    constexpr const char* kLayers = "num-layers-per-virtual-pipeline-stage";
    if (source_.has(kCount)) return source_.size(kCount, 1);
    if (!source_.has(kLayers)) return 1;
    const int64_t layers = source_.has("num-layers") ? source_.size("num-layers", 1) : 0;
    const int64_t each = source_.size(kLayers, 1);
    if (layers > 0 && layers % (each * pp_) == 0) return layers / (each * pp_);
    builder.source().refuse(
        kLayers,
        layers == 0 ? cat("--", kLayers, " needs --num-layers, which is missing")
                    : cat(layers, " layers are not a multiple of ", each * pp_, " = ", each,
                          " layers per virtual stage * ", pp_, " pipeline ranks"),
        "--num-layers must be a multiple of layers per virtual stage times pipeline ranks");
    return 1;
  }

  void read_training(PlanBuilder& builder) {
    read_keys(kMegatronKeys, "", builder);
    builder.set_betas(source_.number("adam-beta1").value_or(0.9),
                      source_.number("adam-beta2").value_or(0.999), "adam-beta1");
    const std::string optimizer = source_.text("optimizer").value_or("adam");
    if (flag("no-decoupled-weight-decay")) builder.set("optimizer.name", "adam", "optimizer");
    if (optimizer == "sgd") {
      builder.set("optimizer.name", "sgd", "optimizer");
      const double momentum = source_.number("sgd-momentum").value_or(0.9);
      if (momentum > 0.0) builder.set("optimizer.momentum", momentum, "sgd-momentum");
    } else if (optimizer != "adam") {
      builder.lose("optimizer", "the optimizer and its states: the plan has AdamW");
    }
    builder.note(
        "Megatron applies no weight decay to biases and norms: list them in optimizer.no_decay to "
        "do the same");
  }

  void read_scheduler(PlanBuilder& builder) {
    constexpr const char* kStyle = "lr-decay-style";
    std::string style = source_.text(kStyle).value_or("linear");
    if (style == "WSD") style = "wsd";
    source_.skip("lr-wsd-decay-style");
    if (style == "inverse-square-root") {
      builder.note(
          "plans do not support inverse-square-root decay: the plan has linear decay instead");
      style = "linear";
    }
    builder.set("scheduler.name", style, kStyle);
    builder.copy(style == "wsd" ? "lr-wsd-decay-iters" : "lr-decay-iters", "scheduler.decay_steps");
  }

  Source& source_;
  const model::ModelConfig* model_;
  int64_t tp_ = 1;
  int64_t pp_ = 1;
  int64_t cp_ = 1;
  bool distributed_optimizer_ = false;
  bool megatron_fsdp_ = false;
  bool torch_fsdp2_ = false;
};

// Returns whether the text is a command line instead of YAML. If a flag ends in ":", for example
// "--num-layers: 24", the text is YAML; reports an error and returns false.
bool has_flags_of_a_shell(const config::Value& root, Diagnostics& found) {
  for (const config::Member& member : root.members) {
    if (!ends_with(member.key, ":")) continue;
    found.error(
        "exchange.syntax", member.key_span, "Megatron arguments in a YAML file are not supported",
        "write the arguments in the file as on a command line, for example --num-layers 24");
    return false;
  }
  return true;
}

}  // namespace

std::optional<Imported> read_megatron(const ImportInput& input) {
  auto root = read_flags(input.text, input.file, {}, input.found);
  if (!root.has_value()) return std::nullopt;
  if (!has_flags_of_a_shell(*root, input.found)) return std::nullopt;
  Source source(std::move(*root), input.file, input.found);
  if (!source.has_any({"tensor-model-parallel-size", "pipeline-model-parallel-size",
                       "context-parallel-size", "expert-model-parallel-size", "num-layers",
                       "hidden-size", "num-attention-heads", "micro-batch-size",
                       "global-batch-size", "seq-length", "train-iters", "train-samples",
                       "use-distributed-optimizer", "use-megatron-fsdp", "use-torch-fsdp2"})) {
    source.refuse_framework("Megatron-LM",
                            "--tensor-model-parallel-size, --num-layers, --micro-batch-size, ...");
    return std::nullopt;
  }
  source.skip("ckpt-format");
  Imported imported = Reader(source, input.model).run();
  for (const char* other : {"pretrain_bert.py", "pretrain_t5.py", "pretrain_vlm.py",
                            "pretrain_mamba.py", "pretrain_vision_classify.py"}) {
    if (input.text.find(other) == std::string_view::npos) continue;
    imported.lost.push_back({"the program", cat('"', other, '"'), "the model that is trained",
                             Span{input.file, 0, 0, 1, {}}});
  }
  return imported;
}

}  // namespace am::frameworks
