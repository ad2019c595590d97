// torchtitan's job files and flags to a plan. What they leave out is torchtitan's default, not
// ours.
#include <cmath>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/exchange/frameworks.h"
#include "am/exchange/optimizers.h"
#include "am/exchange/torchtitan.h"
#include "am/exchange/words.h"

namespace am::exchange {
namespace {

void read_parallelism(PlanBuilder& builder) {
  Source& source = builder.source();
  constexpr const char* kPp = "parallelism.pipeline_parallel_degree";
  const int64_t tp = source.size("parallelism.tensor_parallel_degree", 1);
  const int64_t pp = source.size(kPp, 1);
  const int64_t cp = source.size("parallelism.context_parallel_degree", 1);
  const int64_t ep = source.size("parallelism.expert_parallel_degree", 1);
  const int64_t replicas = source.size("parallelism.data_parallel_replicate_degree", 1);
  constexpr const char* kShard = "parallelism.data_parallel_shard_degree";
  const auto shard = source.integer(kShard).value_or(-1);
  builder.set_mesh(replicas, shard == -1 ? 0 : source.size(kShard, 1), tp, pp, cp, ep,
                   shard == -1 ? "parallelism" : kShard);
  if (tp > 1) {
    builder.set("strategy.sequence_parallel",
                source.boolean("parallelism.enable_sequence_parallel").value_or(true));
  }
  for (const char* key :
       {"parallelism.enable_async_tensor_parallel", "compile.enable_async_tensor_parallel"}) {
    if (source.boolean(key).value_or(false)) {
      builder.set("strategy.enable_async_tensor_parallel", true, key);
    }
  }
  constexpr const char* kReshard = "parallelism.fsdp_reshard_after_forward";
  const std::string reshard = source.text(kReshard).value_or("default");
  if (reshard == "always") builder.set("strategy.reshard_after_forward", true, kReshard);
  if (reshard == "never" || (reshard == "default" && pp > 1)) {
    builder.set("strategy.reshard_after_forward", false, kReshard);
  }
  if (pp == 1) return;
  const PipelineKeys keys = {
      .schedule = "parallelism.pipeline_parallel_schedule",
      .file = "parallelism.pipeline_parallel_schedule_csv",
      .absent = "1F1B",
      .known =
          "1F1B, GPipe, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble, ZBVZeroBubble or "
          "DualPipeV",
      .modules = "parallelism.module_fqns_per_model_part"};
  if (set_pipeline(builder, keys, pp)) {
    builder.note(
        "torchtitan counts the embedding and the head as a layer each when it assigns layers "
        "to stages; this plan assigns them evenly");
  }
}

void read_training(PlanBuilder& builder) {
  Source& source = builder.source();
  const int64_t pp = builder.plan().mesh.pp_size;
  constexpr const char* kLocal = "training.local_batch_size";
  const int64_t local = source.integer(kLocal, 1).value_or(8);
  const int64_t micro =
      source.integer("parallelism.pipeline_parallel_microbatch_size", 1).value_or(1);
  set_batches(builder, local, micro, pp, kLocal);
  constexpr const char* kGlobal = "training.global_batch_size";
  const int64_t global = source.integer(kGlobal).value_or(-1);
  if (global >= 0) {
    builder.set("train.global_batch_size", global, kGlobal);
  } else if (pp > 1 && builder.plan().mesh.dp_size > 0) {
    builder.set("train.global_batch_size", saturating_product({local, builder.plan().mesh.dp_size}),
                kLocal);
  } else if (pp > 1) {
    builder.note(cat("torchtitan's global batch is local_batch_size = ", local,
                     " for each data-parallel rank, and their number is the launcher's: add "
                     "global_batch_size to [train]"));
  }
  read_keys(kTorchtitanKeys, "training.", builder);
  builder.copy("training.dtype", "model.dtype");
  builder.copy("debug.seed", "model.seed");
  const std::string param = source.text("training.mixed_precision_param").value_or("bfloat16");
  const std::string reduce = source.text("training.mixed_precision_reduce").value_or("float32");
  if (builder.knows("strategy.mp_policy")) {
    builder.set_mp_policy(param, reduce, param, "training.mixed_precision_param");
  }
  if (source.boolean("training.enable_cpu_offload").value_or(false)) {
    builder.set_offload(true, "training.enable_cpu_offload");
  }
  read_keys(kTorchtitanKeys, "compile.", builder);
}

void read_checkpointing(PlanBuilder& builder) {
  Source& source = builder.source();
  constexpr const char* kChoice = "activation_checkpoint:";  // of the command line
  const char* key = source.has(kChoice) ? kChoice : "activation_checkpoint.mode";
  const std::string mode = source.text(key).value_or("selective");
  constexpr const char* kOption = "activation_checkpoint.selective_ac_option";
  const std::string option = source.text(kOption).value_or("op");
  const std::optional<int64_t> every = mode == "selective" ? parse_integer(option) : std::nullopt;
  if (mode != "none" && mode != "full" && mode != "selective") {
    source.refuse(key, cat("a plan has no checkpointing \"", mode, "\""),
                  "none, full or selective");
  } else if (mode == "none" || std::holds_alternative<config::DDPConfig>(builder.plan().strategy)) {
    builder.set("strategy.activation_checkpointing", mode != "none", key);
  } else if (every && *every >= 1) {
    builder.set("strategy.activation_checkpointing", "full", key);
    builder.set("strategy.activation_checkpointing_every", *every, kOption);
  } else {
    builder.set("strategy.activation_checkpointing", mode, key);
  }
}

void read_optimizer(PlanBuilder& builder) {
  Source& source = builder.source();
  read_torch_optimizer(builder, "optimizer.name", "optimizer.");
  read_keys(kTorchtitanKeys, "optimizer.", builder);
  builder.set_betas(source.number("optimizer.beta1").value_or(0.9),
                    source.number("optimizer.beta2").value_or(0.95), "optimizer.beta1");
}

void read_scheduler(PlanBuilder& builder) {
  Source& source = builder.source();
  read_keys(kTorchtitanKeys, "lr_scheduler.", builder);
  const int64_t steps = builder.plan().train.max_steps;
  const int64_t total = source.integer("lr_scheduler.total_steps", 0).value_or(steps);
  const auto ratio = source.number("lr_scheduler.decay_ratio");
  std::string type = source.text("lr_scheduler.decay_type").value_or("linear");
  const double least = source.number("lr_scheduler.min_lr_factor").value_or(0.0);
  if (ratio.has_value() && *ratio <= 0.0) return;  // constant
  if (type != "linear" && type != "cosine") {
    builder.note(cat("a plan has no decay \"", type, "\": linear was taken"));
    type = "linear";
  }
  const bool wsd = ratio.has_value() && *ratio < 1.0;
  builder.set("scheduler.name", wsd ? std::string("wsd") : type, "lr_scheduler.decay_type");
  builder.set("scheduler.min_lr", builder.plan().optimizer.lr * least,
              "lr_scheduler.min_lr_factor");
  if (wsd) {
    const auto decay = static_cast<int64_t>(std::llround(*ratio * static_cast<double>(total)));
    builder.set("scheduler.decay_steps", decay, "lr_scheduler.decay_ratio");
  } else if (total != steps) {
    builder.set("scheduler.decay_steps", total, "lr_scheduler.total_steps");
  }
}

void read_rest(PlanBuilder& builder) {
  Source& source = builder.source();
  read_keys(kTorchtitanKeys, "checkpoint.", builder);
  const int64_t interval = source.integer("checkpoint.interval", 1).value_or(500);
  const bool saves = source.boolean("checkpoint.enable").value_or(false);
  if (saves && interval < builder.plan().train.max_steps) {
    builder.set("checkpoint.every", interval, "checkpoint.interval");
  }
  if (saves) {
    builder.set("checkpoint.keep", source.integer("checkpoint.keep_latest_k").value_or(10),
                "checkpoint.keep_latest_k");
  }
  if (source.text("checkpoint.async_mode").value_or("disabled") != "disabled") {
    builder.set("checkpoint.async", true, "checkpoint.async_mode");
  }
  if (source.boolean("checkpoint.last_save_in_hf").value_or(false)) {
    builder.set("checkpoint.export", "hf", "checkpoint.last_save_in_hf");
  }
  read_keys(kTorchtitanKeys, "metrics.", builder);
  for (const char* key : {"model.hf_assets_path", "hf_assets_path"}) {
    builder.copy(key, "model.path");
  }
}

// Whether the text is a command line: a job file has a section on some line.
bool has_flags(std::string_view text) {
  for (const std::string& line : split(std::string(text), '\n')) {
    const std::string_view begin = trim(line);
    if (starts_with(begin, "[")) return false;
    if (starts_with(begin, "--") || begin.find(" --") != std::string_view::npos) return true;
  }
  return false;
}

// "--section.no_key", as 0.3 writes false.
void settle_flags(config::Value& root) {
  for (config::Member& section : root.members) {
    for (config::Member& member : section.value.members) {
      if (!starts_with(member.key, "no_")) continue;
      member.key = member.key.substr(3);
      member.value.kind = config::Value::Kind::kBoolean;
      member.value.boolean = false;
    }
  }
}

}  // namespace

std::optional<Imported> read_torchtitan(std::string_view text, const std::string& file,
                                        Diagnostics& found) {
  const bool flags = has_flags(text);
  auto root = flags ? read_flags(text, file, {.dash = '_', .nested = true}, found)
                    : config::read_toml(text, file, found);
  if (!root.has_value()) return std::nullopt;
  if (flags) settle_flags(*root);
  Source source(std::move(*root), file, found);
  if (!source.has_any({"parallelism", "training", "job"})) {
    source.refuse_framework("torchtitan", "[parallelism], [training] and [job]");
    return std::nullopt;
  }
  const bool replicas = source.size("parallelism.data_parallel_replicate_degree", 1) > 1;
  const auto shard = source.integer("parallelism.data_parallel_shard_degree");
  const bool alone = source.size("parallelism.tensor_parallel_degree", 1) == 1 &&
                     source.size("parallelism.pipeline_parallel_degree", 1) == 1 &&
                     source.size("parallelism.context_parallel_degree", 1) == 1;
  PlanBuilder builder(source, replicas && shard == 1 && alone ? "ddp" : "fsdp2");
  read_parallelism(builder);
  read_training(builder);
  read_checkpointing(builder);
  if (!flags) read_optimizer(builder);
  read_scheduler(builder);
  read_rest(builder);
  return builder.done(source.ignored("a plan has no key for it"));
}

}  // namespace am::exchange
