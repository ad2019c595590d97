// torchtitan's job files and flags to a plan. What they leave out is torchtitan's default, not
// ours.
#include <cmath>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/planner/exchange/draft.h"
#include "am/planner/exchange/facts.h"
#include "am/planner/exchange/torchtitan.h"
#include "am/planner/exchange/words.h"

namespace am::planner {
namespace {

void read_parallelism(Draft& draft) {
  Source& source = draft.source();
  constexpr const char* kPp = "parallelism.pipeline_parallel_degree";
  const int64_t tp = source.size("parallelism.tensor_parallel_degree", 1);
  const int64_t pp = source.size(kPp, 1);
  const int64_t cp = source.size("parallelism.context_parallel_degree", 1);
  const int64_t ep = source.size("parallelism.expert_parallel_degree", 1);
  const int64_t replicas = source.size("parallelism.data_parallel_replicate_degree", 1);
  constexpr const char* kShard = "parallelism.data_parallel_shard_degree";
  const auto shard = source.integer(kShard).value_or(-1);
  draft.set_mesh(replicas, shard == -1 ? 0 : source.size(kShard, 1), tp, pp, cp, ep,
                 shard == -1 ? "parallelism" : kShard);
  if (tp > 1) {
    draft.set("strategy.sequence_parallel",
              source.boolean("parallelism.enable_sequence_parallel").value_or(true));
  }
  for (const char* key :
       {"parallelism.enable_async_tensor_parallel", "compile.enable_async_tensor_parallel"}) {
    if (source.boolean(key).value_or(false)) {
      draft.set("strategy.enable_async_tensor_parallel", true, key);
    }
  }
  constexpr const char* kReshard = "parallelism.fsdp_reshard_after_forward";
  const std::string reshard = source.text(kReshard).value_or("default");
  if (reshard == "always") draft.set("strategy.reshard_after_forward", true, kReshard);
  if (reshard == "never" || (reshard == "default" && pp > 1)) {
    draft.set("strategy.reshard_after_forward", false, kReshard);
  }
  if (pp == 1) return;
  constexpr const char* kSchedule = "parallelism.pipeline_parallel_schedule";
  const std::string named = source.text(kSchedule).value_or("1F1B");
  const auto schedule = our_schedule_name(named);
  if (!schedule.has_value()) {
    source.refuse(kSchedule, cat("a plan has no schedule \"", named, "\""),
                  "1F1B, GPipe, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble, ZBVZeroBubble "
                  "or DualPipeV");
    return;
  }
  draft.set("pipeline.schedule", *schedule, kSchedule);
  constexpr const char* kParts = "parallelism.module_fqns_per_model_part";
  if (source.has(kParts)) {
    set_stages(draft, kParts, pp);
  } else {
    const bool single = *schedule == "1f1b" || *schedule == "gpipe";
    draft.set("pipeline.virtual_stages", int64_t{single ? 1 : 2}, kSchedule);
    draft.note(
        "torchtitan counts the embedding and the head as a layer each when it deals layers "
        "to stages; this plan deals them evenly");
  }
}

void read_training(Draft& draft) {
  Source& source = draft.source();
  const int64_t pp = draft.plan().mesh.pp_size;
  constexpr const char* kLocal = "training.local_batch_size";
  const int64_t local = source.integer(kLocal, 1).value_or(8);
  const int64_t micro =
      source.integer("parallelism.pipeline_parallel_microbatch_size", 1).value_or(1);
  set_batches(draft, local, micro, pp, kLocal);
  constexpr const char* kGlobal = "training.global_batch_size";
  const int64_t global = source.integer(kGlobal).value_or(-1);
  if (global >= 0) {
    draft.set("train.global_batch_size", global, kGlobal);
  } else if (pp > 1 && draft.plan().mesh.dp_size > 0) {
    draft.set("train.global_batch_size", saturating_product({local, draft.plan().mesh.dp_size}),
              kLocal);
  } else if (pp > 1) {
    draft.note(cat("torchtitan's global batch is local_batch_size = ", local,
                   " for each data-parallel rank, and their number is the launcher's: add "
                   "global_batch_size to [train]"));
  }
  draft.set("train.seq_len", source.integer("training.seq_len").value_or(2048), "training.seq_len");
  draft.set("train.max_steps", source.integer("training.steps").value_or(10000), "training.steps");
  const double norm = source.number("training.max_norm").value_or(1.0);
  draft.set("train.max_grad_norm", norm >= kNoClipping ? 0.0 : norm, "training.max_norm");
  draft.copy("training.dtype", "model.dtype");
  draft.copy("debug.seed", "model.seed");
  const std::string param = source.text("training.mixed_precision_param").value_or("bfloat16");
  const std::string reduce = source.text("training.mixed_precision_reduce").value_or("float32");
  if (draft.knows("strategy.mp_policy")) {
    draft.set_mp_policy(param, reduce, param, "training.mixed_precision_param");
  }
  if (source.boolean("training.enable_cpu_offload").value_or(false)) {
    draft.set_offload(true, "training.enable_cpu_offload");
  }
  draft.copy("compile.enable", "strategy.enable_compile");
}

void read_checkpointing(Draft& draft) {
  Source& source = draft.source();
  constexpr const char* kChoice = "activation_checkpoint:";  // of the command line
  const char* key = source.has(kChoice) ? kChoice : "activation_checkpoint.mode";
  const std::string mode = source.text(key).value_or("selective");
  constexpr const char* kOption = "activation_checkpoint.selective_ac_option";
  const std::string option = source.text(kOption).value_or("op");
  const std::optional<int64_t> every = mode == "selective" ? parse_integer(option) : std::nullopt;
  if (mode != "none" && mode != "full" && mode != "selective") {
    source.refuse(key, cat("a plan has no checkpointing \"", mode, "\""),
                  "none, full or selective");
  } else if (mode == "none" || std::holds_alternative<config::DDPConfig>(draft.plan().strategy)) {
    draft.set("strategy.activation_checkpointing", mode != "none", key);
  } else if (every && *every >= 1) {
    draft.set("strategy.activation_checkpointing", "full", key);
    draft.set("strategy.activation_checkpointing_every", *every, kOption);
  } else {
    draft.set("strategy.activation_checkpointing", mode, key);
  }
}

void read_optimizer(Draft& draft) {
  Source& source = draft.source();
  const std::string name = source.text("optimizer.name").value_or("AdamW");
  if (name != "AdamW") draft.note(cat("the optimizer is ", name, "; a plan has AdamW"));
  // The defaults of a job file.
  const double lr = source.number("optimizer.lr").value_or(8e-4);
  draft.set("optimizer.lr", lr, "optimizer.lr");
  draft.set_betas(source.number("optimizer.beta1").value_or(0.9),
                  source.number("optimizer.beta2").value_or(0.95), "optimizer.beta1");
  draft.set("optimizer.eps", source.number("optimizer.eps").value_or(1e-8), "optimizer.eps");
  draft.set("optimizer.weight_decay", source.number("optimizer.weight_decay").value_or(0.1),
            "optimizer.weight_decay");
}

void read_scheduler(Draft& draft) {
  Source& source = draft.source();
  draft.set("scheduler.warmup_steps", source.integer("lr_scheduler.warmup_steps").value_or(200),
            "lr_scheduler.warmup_steps");
  const int64_t steps = draft.plan().train.max_steps;
  const int64_t total = source.integer("lr_scheduler.total_steps", 0).value_or(steps);
  const auto ratio = source.number("lr_scheduler.decay_ratio");
  std::string type = source.text("lr_scheduler.decay_type").value_or("linear");
  const double least = source.number("lr_scheduler.min_lr_factor").value_or(0.0);
  if (ratio.has_value() && *ratio <= 0.0) return;  // constant
  if (type != "linear" && type != "cosine") {
    draft.note(cat("a plan has no decay \"", type, "\": linear was taken"));
    type = "linear";
  }
  const bool wsd = ratio.has_value() && *ratio < 1.0;
  draft.set("scheduler.name", wsd ? std::string("wsd") : type, "lr_scheduler.decay_type");
  draft.set("scheduler.min_lr", draft.plan().optimizer.lr * least, "lr_scheduler.min_lr_factor");
  if (wsd) {
    const auto decay = static_cast<int64_t>(std::llround(*ratio * static_cast<double>(total)));
    draft.set("scheduler.decay_steps", decay, "lr_scheduler.decay_ratio");
  } else if (total != steps) {
    draft.set("scheduler.decay_steps", total, "lr_scheduler.total_steps");
  }
}

void read_rest(Draft& draft) {
  Source& source = draft.source();
  draft.copy("checkpoint.folder", "checkpoint.dir");
  const int64_t interval = source.integer("checkpoint.interval", 1).value_or(500);
  const bool saves = source.boolean("checkpoint.enable").value_or(false);
  if (saves && interval < draft.plan().train.max_steps) {
    draft.set("checkpoint.every", interval, "checkpoint.interval");
  }
  if (saves)
    draft.set("checkpoint.keep", source.integer("checkpoint.keep_latest_k").value_or(10),
              "checkpoint.keep_latest_k");
  if (source.text("checkpoint.async_mode").value_or("disabled") != "disabled") {
    draft.set("checkpoint.async", true, "checkpoint.async_mode");
  }
  if (source.boolean("checkpoint.last_save_in_hf").value_or(false)) {
    draft.set("checkpoint.export", "hf", "checkpoint.last_save_in_hf");
  }
  draft.set("metrics.every", source.integer("metrics.log_freq").value_or(10), "metrics.log_freq");
  draft.copy("metrics.enable_tensorboard", "metrics.tensorboard");
  for (const char* key : {"model.hf_assets_path", "hf_assets_path"}) {
    draft.copy(key, "model.path");
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
  Draft draft(source, replicas && shard == 1 && alone ? "ddp" : "fsdp2");
  read_parallelism(draft);
  read_training(draft);
  read_checkpointing(draft);
  if (!flags) read_optimizer(draft);
  read_scheduler(draft);
  read_rest(draft);
  return draft.done(source.ignored("a plan has no key for it"));
}

}  // namespace am::planner
