// NeMo AutoModel's recipes to a plan.
#include <array>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/planner/exchange/draft.h"
#include "am/planner/exchange/facts.h"
#include "am/planner/exchange/nemo_automodel.h"
#include "am/planner/exchange/yaml_reader.h"

namespace am::planner {
namespace {

// AutoModel's names of booleans here: "full", "on", ...
void read_checkpointing(Draft& draft) {
  constexpr const char* kKey = "distributed.activation_checkpointing";
  Source& source = draft.source();
  const config::Value* value = source.take(kKey);
  if (value == nullptr) return;
  if (value->kind == config::Value::Kind::kText) {
    for (const char* yes : {"full", "enabled"}) {
      if (value->text == yes) return draft.set("strategy.activation_checkpointing", true, kKey);
    }
    for (const char* no : {"none", "disabled"}) {
      if (value->text == no) return draft.set("strategy.activation_checkpointing", false, kKey);
    }
  }
  draft.set("strategy.activation_checkpointing", *value);
}

// A policy object without its `_target_`; absent members are AutoModel's defaults.
void read_policies(Draft& draft) {
  Source& source = draft.source();
  config::Value policy;
  policy.span = source.span("distributed.mp_policy");
  const bool given = source.has("distributed.mp_policy");
  source.skip("distributed.mp_policy._target_");
  for (const auto& [key, absent] : {std::pair{"param_dtype", given ? "none" : "bfloat16"},
                                    {"reduce_dtype", given ? "none" : "float32"},
                                    {"output_dtype", "none"}}) {
    const std::string path = cat("distributed.mp_policy.", key);
    const std::string dtype = source.text(path).value_or(absent);
    policy.members.push_back({key, policy.span, text_value(dtype, source.span(path))});
  }
  constexpr const char* kCast = "distributed.mp_policy.cast_forward_inputs";
  policy.members.push_back(
      {"cast_forward_inputs", policy.span,
       boolean_value(source.boolean(kCast).value_or(false), source.span(kCast))});
  draft.set("strategy.mp_policy", policy);
  constexpr const char* kOffload = "distributed.offload_policy";
  if (!source.has(kOffload)) return;
  source.skip("distributed.offload_policy._target_");
  draft.set_offload(source.boolean("distributed.offload_policy.pin_memory").value_or(true),
                    kOffload);
}

void read_strategy(Draft& draft) {
  Source& source = draft.source();
  read_checkpointing(draft);
  if (draft.knows("strategy.mp_policy")) read_policies(draft);
  for (const std::string& key :
       config::section_keys("strategy", config::strategy_name(draft.plan().strategy))) {
    if (key == "name" || key == "mp_policy" || key == "offload_policy" || key == "backend" ||
        key == "activation_checkpointing" || key == "tp_plan") {
      continue;
    }
    draft.copy(cat("distributed.", key), cat("strategy.", key));
  }
  if (source.has("dist_env.backend")) draft.copy("dist_env.backend", "strategy.backend");
}

void read_pipeline(Draft& draft, int64_t pp) {
  Source& source = draft.source();
  constexpr const char* kSchedule = "distributed.pipeline.pp_schedule";
  const std::string named = source.text(kSchedule).value_or("1f1b");
  const auto schedule = our_schedule_name(named);
  if (!schedule.has_value()) {
    source.refuse(
        kSchedule, cat("a plan has no schedule \"", named, "\""),
        "1f1b, gpipe, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble or ZBVZeroBubble");
    return;
  }
  draft.set("pipeline.schedule", *schedule, kSchedule);
  constexpr const char* kParts = "distributed.pipeline.module_fqns_per_model_part";
  if (source.has(kParts)) {
    set_stages(draft, kParts, pp);
  } else {
    const bool single = *schedule == "1f1b" || *schedule == "gpipe";
    draft.set("pipeline.virtual_stages", int64_t{single ? 1 : 2}, kSchedule);
    if (source.has("distributed.pipeline.layers_per_stage")) {
      draft.note("layers_per_stage was not followed: set pipeline.virtual_stages or split_points");
    }
  }
}

void read_distributed(Draft& draft) {
  Source& source = draft.source();
  // Its recipes write `none` for a size that follows from the others; to YAML that is a word.
  const auto is_none = [&](const std::string& path) {
    const config::Value* value = source.find(path);
    if (value == nullptr || value->kind != config::Value::Kind::kText) return false;
    return value->text == "none" || value->text == "None";
  };
  const auto size = [&](const char* key) {
    const std::string path = cat("distributed.", key);
    if (is_none(path)) source.skip(path);
    return is_none(path) ? 1 : source.size(path, 1);
  };
  const int64_t pp = size("pp_size");
  const int64_t replicas = size("dp_replicate_size");
  constexpr const char* kDp = "distributed.dp_size";
  if (is_none(kDp)) source.skip(kDp);
  const bool given = source.has(kDp) && !is_none(kDp) && source.integer(kDp).value_or(0) > 0;
  const int64_t dp = given ? source.size(kDp, 1) : 0;
  draft.set_mesh(1, dp, size("tp_size"), pp, size("cp_size"), size("ep_size"), kDp);
  if (replicas > 1) {
    draft.set("mesh.dp_replicate_size", replicas, "distributed.dp_replicate_size");
  }
  read_strategy(draft);
  if (pp > 1) read_pipeline(draft, pp);
}

void read_batches(Draft& draft) {
  Source& source = draft.source();
  const int64_t pp = draft.plan().mesh.pp_size;
  constexpr const char* kLocal = "step_scheduler.local_batch_size";
  const int64_t local = source.integer(kLocal, 1).value_or(1);
  const int64_t micro = source.integer("distributed.pipeline.pp_microbatch_size", 1).value_or(1);
  source.skip("distributed.pipeline.pp_batch_size");
  set_batches(draft, local, micro, pp, kLocal);
  draft.set("train.global_batch_size",
            source.integer("step_scheduler.global_batch_size", 1).value_or(32),
            "step_scheduler.global_batch_size");
  draft.copy("step_scheduler.max_steps", "train.max_steps");
  draft.copy("step_scheduler.ckpt_every_steps", "checkpoint.every");
  const double norm = source.number("clip_grad_norm.max_norm").value_or(1.0);
  draft.set("train.max_grad_norm", norm >= kNoClipping ? 0.0 : norm, "clip_grad_norm.max_norm");
  for (const char* key :
       {"packed_sequence.packed_sequence_size", "dataset.seq_length", "dataset.seq_len"}) {
    if (source.integer(key).value_or(0) > 0) draft.copy(key, "train.seq_len");
  }
}

void read_data(Draft& draft) {
  Source& source = draft.source();
  const std::string target = source.text("dataset._target_").value_or("");
  if (ends_with(target, "MegatronPretraining")) {
    draft.copy("dataset.paths", "data.path");
    draft.set("data.kind", "megatron", "dataset._target_");
  } else if (ends_with(target, "NanogptDataset")) {
    draft.copy("dataset.file_pattern", "data.path");
    draft.set("data.kind", "tokens", "dataset._target_");
  } else if (!target.empty() && !ends_with(target, "MockIterableDataset")) {
    draft.note(cat("a plan cannot read ", target, ": its data is synthetic"));
  }
  draft.copy("dataloader.shuffle", "data.shuffle");
}

void read_training(Draft& draft) {
  Source& source = draft.source();
  for (const auto& [theirs, ours] : {std::pair{"seed", "model.seed"},
                                     {"optimizer.lr", "optimizer.lr"},
                                     {"optimizer.betas", "optimizer.betas"},
                                     {"optimizer.eps", "optimizer.eps"},
                                     {"optimizer.weight_decay", "optimizer.weight_decay"},
                                     {"checkpoint.checkpoint_dir", "checkpoint.dir"},
                                     {"checkpoint.is_async", "checkpoint.async"},
                                     {"checkpoint.max_recent_checkpoints", "checkpoint.keep"}}) {
    draft.copy(theirs, ours);
  }
  if (!source.has("seed")) draft.set("model.seed", int64_t{42});
  const std::string optimizer = source.text("optimizer._target_").value_or("torch.optim.AdamW");
  if (!ends_with(optimizer, "AdamW")) {
    draft.note(cat("the optimizer is ", optimizer, "; a plan has AdamW"));
  }
  draft.copy("model.pretrained_model_name_or_path", "model.path");
  const std::string dtype = source.text("model.torch_dtype").value_or("");
  if (!dtype.empty() && dtype != "auto") draft.set("model.dtype", dtype, "model.torch_dtype");
}

void read_scheduler(Draft& draft) {
  Source& source = draft.source();
  if (!source.has("lr_scheduler")) return;  // constant
  constexpr const char* kStyle = "lr_scheduler.lr_decay_style";
  std::string style = source.text(kStyle).value_or("cosine");
  if (style == "WSD") style = "wsd";
  if (style == "inverse-square-root") {
    draft.note("a plan has no inverse-square-root decay: linear was taken");
    style = "linear";
  }
  draft.set("scheduler.name", style, kStyle);
  draft.copy("lr_scheduler.lr_warmup_steps", "scheduler.warmup_steps");
  source.skip("lr_scheduler.init_lr");
  source.skip("lr_scheduler.lr_wsd_decay_style");
  source.skip(style == "wsd" ? "lr_scheduler.lr_decay_steps" : "lr_scheduler.wsd_decay_steps");
  if (style == "constant") {
    source.skip("lr_scheduler.min_lr");
    source.skip("lr_scheduler.lr_decay_steps");
    return;
  }
  draft.copy("lr_scheduler.min_lr", "scheduler.min_lr");
  draft.copy(style == "wsd" ? "lr_scheduler.wsd_decay_steps" : "lr_scheduler.lr_decay_steps",
             "scheduler.decay_steps");
}

}  // namespace

std::optional<Imported> read_nemo_automodel(std::string_view text, const std::string& file,
                                            Diagnostics& found) {
  auto root = read_yaml(text, file, found);
  if (!root.has_value()) return std::nullopt;
  Source source(std::move(*root), file, found);
  if (!source.has_any({"recipe", "distributed", "step_scheduler", "dist_env", "model._target_",
                       "model.pretrained_model_name_or_path"})) {
    source.refuse_framework("NeMo AutoModel",
                            "recipe, distributed, step_scheduler, dist_env and a model's _target_");
    return std::nullopt;
  }
  constexpr const char* kStrategy = "distributed.strategy";
  std::string strategy = source.text(kStrategy).value_or("fsdp2");
  if (strategy == "megatron-fsdp" || strategy == "mfsdp") strategy = "megatron_fsdp";
  if (strategy != "fsdp2" && strategy != "megatron_fsdp" && strategy != "ddp") {
    source.refuse(kStrategy, cat("unknown strategy \"", strategy, "\""),
                  "fsdp2, megatron_fsdp or ddp");
    return std::nullopt;
  }
  source.skip("recipe");
  source.skip("model._target_");
  source.skip("checkpoint.enabled");
  Draft draft(source, strategy);
  read_distributed(draft);
  read_batches(draft);
  read_data(draft);
  read_training(draft);
  read_scheduler(draft);
  return draft.done(source.ignored("a plan has no key for it"));
}

}  // namespace am::planner
