// Export to and import from DeepSpeed: the JSON file that deepspeed.initialize reads. A ZeRO stage
// corresponds to a strategy of a plan: stage 0 to ddp, stages 1 and 2 to megatron_fsdp, stage 3 to
// fsdp2. Stage 0 with tensor parallelism or with 16-bit weights corresponds to megatron_fsdp with
// zero_dp_strategy = 0.
#include <array>

#include "am/base/text.h"
#include "am/config/yaml_reader.h"
#include "am/frameworks/frameworks.h"
#include "am/frameworks/optimizers.h"
#include "am/frameworks/shared_key.h"
#include "am/layout/precision.h"

namespace am::frameworks {
namespace {

constexpr std::array<Reason, 25> kReasons = {{
    {"strategy.shard_placement.", "ZeRO shards flat buffers, not single parameters"},
    {"strategy.ignored_params", "ZeRO shards all parameters"},
    {"mesh.pp_size", "DeepSpeed's pipelines are defined in the model's code (PipelineModule)"},
    {"mesh.ep_size", "DeepSpeed's expert parallelism is defined in the model's code"},
    {"mesh.cp_size", "DeepSpeed's sequence parallelism is defined in the model's code"},
    {"mesh.dp_size", "the ranks of axes that cannot be exported become data parallel"},
    {"mesh.dp_replicate_size", "ZeRO shards over all of dp"},
    {"pipeline.", "DeepSpeed's pipelines are defined in the model's code (PipelineModule)"},
    {"strategy.name",
     "an import reads the ZeRO stage as the strategy with the same sharding: ddp, megatron_fsdp or "
     "fsdp2"},
    {"strategy.zero_dp_strategy",
     "an import reads ZeRO stage 0 as ddp and stage 3 as fsdp2, which do not have this key"},
    {"strategy.tp_plan", "AutoTP chooses the layers itself"},
    {"strategy.sequence_parallel", "AutoTP has no sequence parallelism"},
    {"strategy.activation_checkpointing", "the model's code decides which layers are checkpointed"},
    {"strategy.activation_checkpointing_every",
     "the model's code decides which layers are checkpointed"},
    {"strategy.mp_policy.", "DeepSpeed has one dtype for all computation"},
    {"strategy.preserve_fp32_weights", "DeepSpeed always keeps a float32 copy of 16-bit weights"},
    {"strategy.enable_compile", "the training script calls engine.compile()"},
    {"optimizer.name", "DeepSpeed's Muon needs parameter groups that the model's code defines"},
    {"optimizer.no_decay", "the training script defines the parameter groups"},
    {"train.seq_len", "the training script's data decides it"},
    {"train.max_steps", "the training script sets the number of steps"},
    {"train.seed", "the training script sets the seed"},
    {"scheduler.", "DeepSpeed's schedulers have other parameters"},
    {"model.", "the training script loads the model"},
    {"checkpoint.", "the training script saves the checkpoints"},
}};

constexpr std::array<SharedKey, 6> kKeys = {{
    {"gradient_clipping", "train.max_grad_norm", 0.0},
    {"fp16.loss_scale", "train.loss_scale", {}, Form::kOptional},
    {"optimizer.params.lr", "optimizer.lr"},
    {"optimizer.params.betas", "optimizer.betas"},
    {"optimizer.params.eps", "optimizer.eps"},
    {"optimizer.params.weight_decay", "optimizer.weight_decay"},
}};

int64_t zero_stage(const JobShape& shape) {
  if (shape.ddp != nullptr) return 0;
  if (shape.megatron_lm != nullptr) return shape.megatron_lm->zero;
  return shape.megatron != nullptr ? shape.megatron->zero_dp_strategy : 3;
}

const char* short_dtype(const std::string& dtype) {
  return dtype == "bfloat16" ? "bf16" : dtype == "float16" ? "fp16" : "fp32";
}

Json zero_optimization(const JobShape& shape) {
  Json zero = Json::object();
  zero["stage"] = zero_stage(shape);
  if (shape.fsdp2 == nullptr) return zero;
  const auto* size = shape.fsdp2->reshard_after_forward
                         ? std::get_if<int64_t>(&*shape.fsdp2->reshard_after_forward)
                         : nullptr;
  if (size != nullptr) zero["zero_hpz_partition_size"] = *size;
  if (shape.fsdp2->offload_policy) {
    const Json cpu = {{"device", "cpu"}, {"pin_memory", shape.fsdp2->offload_policy->pin_memory}};
    zero["offload_param"] = cpu;
    zero["offload_optimizer"] = cpu;
  }
  return zero;
}

// Writes the batch sizes. DeepSpeed's number of data-parallel ranks is the number of all ranks
// divided by tp: the plan's axes pp and cp cannot be exported, so their ranks become data-parallel,
// too.
void write_batches(const JobShape& shape, Json& out) {
  const int64_t dp = shape.world() / shape.mesh.tp;
  const int64_t micro = shape.plan.train.micro_batch_size;
  const int64_t steps = std::max<int64_t>(1, shape.global_batch / (micro * dp));
  out["train_batch_size"] = micro * steps * dp;
  out["train_micro_batch_size_per_gpu"] = micro;
  out["gradient_accumulation_steps"] = steps;
}

Exported write(const ExportInput& input) {
  const JobShape shape(input);
  const config::Plan& plan = shape.plan;
  Json out = Json::object();
  write_batches(shape, out);
  write_keys(kKeys, "gradient_clipping", shape, out);
  out["zero_optimization"] = zero_optimization(shape);
  if (shape.mesh.tp > 1) out["tensor_parallel"] = {{"autotp_size", shape.mesh.tp}};
  const layout::StepPrecision precision = layout::resolve_precision(plan);
  if (precision.compute == "bfloat16") out["bf16"] = {{"enabled", true}};
  if (precision.compute == "float16") {
    out["fp16"] = {{"enabled", true}};
    write_keys(kKeys, "fp16.", shape, out);
  }
  out["communication_data_type"] = short_dtype(precision.reduce);
  out["optimizer"]["type"] = torch_optimizer(plan.optimizer);
  write_keys(kKeys, "optimizer.", shape, out);
  Json& arguments = out["optimizer"]["params"];
  if (plan.optimizer.name == "sgd") write_sgd(plan.optimizer, arguments);
  // By default, DeepSpeed's optimizer "Adam" is AdamW.
  if (plan.optimizer.name == "adam") arguments["adam_w_mode"] = false;
  if (plan.metrics.every != 1) out["steps_per_print"] = plan.metrics.every;
  Exported exported;
  exported.text = dump_json(out, 2) + "\n";
  exported.notes.push_back(
      cat("start the job with ", shape.world(),
          " ranks; the training script sets seq_len, steps, seeds and scheduler"));
  return exported;
}

// Reads the batch sizes. In DeepSpeed, train_batch_size = train_micro_batch_size_per_gpu *
// gradient_accumulation_steps * dp. A file that sets all three of these keys therefore determines
// dp.
void read_batches(PlanBuilder& builder, const PlanBuilder::Axis& tp) {
  Source& source = builder.source();
  constexpr const char* kBatch = "train_batch_size";
  constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
  constexpr const char* kSteps = "gradient_accumulation_steps";
  const auto batch = source.integer(kBatch, 1);
  const auto micro = source.integer(kMicro, 1);
  const auto steps = source.integer(kSteps, 1);
  if (micro.has_value()) builder.set("train.micro_batch_size", *micro, kMicro);
  if (batch.has_value()) builder.set("train.global_batch_size", *batch, kBatch);
  if (!batch || !micro || !steps) {
    builder.set_mesh({.dp_shard = {0, kBatch}, .tp = tp});
    return;
  }
  const int64_t each = saturating_product({*micro, *steps});
  if (*batch % each != 0) {
    source.refuse(
        kBatch,
        cat(kBatch, " = ", *batch, " is not a multiple of ", kMicro, " * ", kSteps, " = ", each),
        "train_batch_size is the product of those two and the number of data-parallel ranks");
    return;
  }
  builder.set_mesh({.dp_shard = {*batch / each, kBatch}, .tp = tp});
}

// Returns the dtype in which DeepSpeed's engine computes.
std::string compute_dtype(Source& source) {
  // "bfloat16" is an older name of the section "bf16".
  for (const char* key : {"bf16.enabled", "bfloat16.enabled"}) {
    if (source.boolean(key).value_or(false)) return "bfloat16";
  }
  return source.boolean("fp16.enabled").value_or(false) ? "float16" : "float32";
}

// Reads the dtypes. DeepSpeed's optimizer keeps a float32 copy of 16-bit weights. For ZeRO stages 0
// to 2, a plan expresses this copy by preserve_fp32_weights. For stage 3, the plan's fsdp2 stores
// the parameters in float32 and needs no copy.
void read_precision(PlanBuilder& builder) {
  Source& source = builder.source();
  const std::string dtype = compute_dtype(source);
  const char* key = dtype == "float16" ? "fp16.enabled" : "bf16.enabled";
  if (dtype == "float16") read_keys(kKeys, "fp16.", builder);
  constexpr const char* kReduce = "communication_data_type";
  const std::string reduce = source.text(kReduce).value_or(short_dtype(dtype));
  const std::string reduced = reduce == "fp32" || reduce == "float32"    ? "float32"
                              : reduce == "bf16" || reduce == "bfloat16" ? "bfloat16"
                                                                         : "float16";
  if (!builder.knows("strategy.mp_policy")) {
    if (dtype != "float32") {
      builder.set("model.dtype", dtype, key);
      builder.set("strategy.preserve_fp32_weights", true, key);
    }
    if (reduced == "float32" && dtype != "float32" &&
        builder.knows("strategy.grad_reduce_in_fp32")) {
      builder.set("strategy.grad_reduce_in_fp32", true, kReduce);
    } else if (reduced != dtype) {
      builder.lose(kReduce, "the dtype in which gradients are reduced");
    }
    return;
  }
  builder.set_mp_policy(dtype, reduced, dtype, key);
}

void read_zero(PlanBuilder& builder) {
  Source& source = builder.source();
  const int64_t stage = source.integer("zero_optimization.stage", 0).value_or(0);
  if (builder.knows("strategy.zero_dp_strategy")) {
    builder.set("strategy.zero_dp_strategy", stage, "zero_optimization.stage");
  }
  constexpr const char* kSecond = "zero_optimization.zero_hpz_partition_size";
  if (source.has(kSecond) && source.size(kSecond, 1) > 1) {
    builder.copy(kSecond, "strategy.reshard_after_forward");
  }
  constexpr const char* kOffload = "zero_optimization.offload_param";
  // Only offload to the CPU is converted, and only for a strategy with an offload_policy. Any other
  // offload, for example to disk, stays unread and is therefore reported as lost.
  const config::Value* device = source.find(cat(kOffload, ".device"));
  if (device != nullptr && device->text == "cpu" && builder.knows("strategy.offload_policy")) {
    source.skip(cat(kOffload, ".device"));
    builder.set_offload(source.boolean(cat(kOffload, ".pin_memory")).value_or(false), kOffload);
    source.skip("zero_optimization.offload_optimizer");
  }
}

void read_training(PlanBuilder& builder) {
  Source& source = builder.source();
  read_keys(kKeys, "gradient_clipping", builder);
  std::string optimizer = source.text("optimizer.type").value_or("AdamW");
  // DeepSpeed accepts the optimizer's name in upper or lower case. "Adam" means AdamW unless
  // adam_w_mode is false.
  for (const char* known : {"Adam", "AdamW", "SGD"}) {
    if (plain_word(optimizer) == plain_word(known)) optimizer = known;
  }
  const bool decoupled = source.boolean("optimizer.params.adam_w_mode").value_or(true);
  if (optimizer == "Adam" && decoupled) optimizer = "AdamW";
  set_torch_optimizer(builder, optimizer, "optimizer.type", "optimizer.params.");
  read_keys(kKeys, "optimizer.", builder);
  builder.copy("steps_per_print", "metrics.every");
}

// Removes settings with the value "auto" and returns their paths. transformers' Trainer replaces
// each "auto" by the value of one of the Trainer's arguments.
std::vector<std::string> drop_auto(config::Value& value, const std::string& path) {
  std::vector<std::string> dropped;
  std::vector<config::Member> kept;
  for (config::Member& member : value.members) {
    const std::string own = path.empty() ? member.key : cat(path, ".", member.key);
    if (member.value.kind == config::Value::Kind::kText && member.value.text == "auto") {
      dropped.push_back(own);
      continue;
    }
    for (std::string& inner : drop_auto(member.value, own)) dropped.push_back(std::move(inner));
    kept.push_back(std::move(member));
  }
  value.members = std::move(kept);
  return dropped;
}

std::optional<Imported> read(const ImportInput& input) {
  // Reads the JSON with a YAML reader, because this reader accepts comments and unquoted words, as
  // DeepSpeed does.
  auto root = config::read_yaml(input.text, input.file, input.found);
  if (!root.has_value()) return std::nullopt;
  const std::vector<std::string> left_to_trainer = drop_auto(*root, "");
  Source source(std::move(*root), input.file, input.found);
  if (left_to_trainer.empty() &&
      !source.has_any({"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu",
                       "gradient_accumulation_steps", "tensor_parallel", "bf16", "fp16"})) {
    source.refuse_framework("DeepSpeed",
                            "zero_optimization, train_batch_size, bf16, fp16 or similar keys");
    return std::nullopt;
  }
  constexpr const char* kStage = "zero_optimization.stage";
  const int64_t stage = source.integer(kStage, 0).value_or(0);
  if (stage > 3) {
    source.refuse(kStage, cat("stage = ", stage, " is not a stage of ZeRO"),
                  "legal values: 0 to 3");
    return std::nullopt;
  }
  constexpr const char* kTp = "tensor_parallel.autotp_size";
  const int64_t tp = source.integer(kTp).value_or(0) == 0 ? 1 : source.size(kTp, 1);
  // The strategy ddp has no tensor parallelism, and keeps no float32 copy of 16-bit weights.
  const bool ddp = stage == 0 && tp == 1 && compute_dtype(source) == "float32";
  PlanBuilder builder(source, ddp ? "ddp" : stage == 3 ? "fsdp2" : "megatron_fsdp", input.model);
  read_batches(builder, {tp, kTp});
  read_zero(builder);
  read_precision(builder);
  read_training(builder);
  if (!left_to_trainer.empty()) {
    builder.note(
        cat("the Trainer of transformers fills in \"auto\"; the plan has its own defaults for: ",
            join(left_to_trainer, ", ")));
  }
  return builder.done(source.ignored("a plan has no key for it"));
}

}  // namespace

const Framework kDeepspeed = {.name = "deepspeed",
                              .title = "DeepSpeed",
                              .format = "JSON",
                              .reasons = kReasons,
                              .write = write,
                              .read = read};

}  // namespace am::frameworks
