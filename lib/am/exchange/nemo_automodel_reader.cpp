// NeMo AutoModel's recipes to a plan.
#include <array>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/exchange/frameworks.h"
#include "am/exchange/nemo_automodel.h"
#include "am/exchange/optimizers.h"
#include "am/exchange/yaml_reader.h"

namespace am::exchange {
namespace {

// AutoModel's names of booleans here: "full", "on", ...
void read_checkpointing(PlanBuilder& builder) {
  constexpr const char* kKey = "distributed.activation_checkpointing";
  Source& source = builder.source();
  const config::Value* value = source.take(kKey);
  if (value == nullptr) return;
  if (value->kind == config::Value::Kind::kText) {
    for (const char* yes : {"full", "enabled"}) {
      if (value->text == yes) return builder.set("strategy.activation_checkpointing", true, kKey);
    }
    for (const char* no : {"none", "disabled"}) {
      if (value->text == no) return builder.set("strategy.activation_checkpointing", false, kKey);
    }
  }
  builder.set("strategy.activation_checkpointing", *value);
}

// A policy object without its `_target_`; absent members are AutoModel's defaults.
void read_policies(PlanBuilder& builder) {
  Source& source = builder.source();
  config::Value policy;
  policy.span = source.span("distributed.mp_policy");
  const bool given = source.has("distributed.mp_policy");
  source.skip("distributed.mp_policy._target_");
  for (const auto& [key, absent] : {std::pair{"param_dtype", given ? "none" : "bfloat16"},
                                    {"reduce_dtype", given ? "none" : "float32"},
                                    {"output_dtype", "none"}}) {
    const std::string path = cat("distributed.mp_policy.", key);
    const std::string dtype = source.text(path).value_or(absent);
    policy.members.push_back({key, policy.span, value_of(dtype, source.span(path))});
  }
  constexpr const char* kCast = "distributed.mp_policy.cast_forward_inputs";
  policy.members.push_back({"cast_forward_inputs", policy.span,
                            value_of(source.boolean(kCast).value_or(false), source.span(kCast))});
  builder.set("strategy.mp_policy", policy);
  constexpr const char* kOffload = "distributed.offload_policy";
  if (!source.has(kOffload)) return;
  source.skip("distributed.offload_policy._target_");
  builder.set_offload(source.boolean("distributed.offload_policy.pin_memory").value_or(true),
                      kOffload);
}

void read_strategy(PlanBuilder& builder) {
  read_checkpointing(builder);
  if (builder.knows("strategy.mp_policy")) read_policies(builder);
  for (const std::string& key :
       config::section_keys("strategy", config::strategy_name(builder.plan().strategy))) {
    if (key == "name" || key == "mp_policy" || key == "offload_policy" || key == "backend" ||
        key == "activation_checkpointing" || key == "tp_plan") {
      continue;
    }
    builder.copy(cat("distributed.", key), cat("strategy.", key));
  }
  read_keys(kNemoAutomodelKeys, "dist_env.", builder);
}

void read_pipeline(PlanBuilder& builder, int64_t pp) {
  const PipelineKeys keys = {
      .schedule = "distributed.pipeline.pp_schedule",
      .file = "distributed.pipeline.pp_schedule_csv",
      .absent = "1f1b",
      .known = "1f1b, gpipe, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble or ZBVZeroBubble",
      .modules = "distributed.pipeline.module_fqns_per_model_part"};
  const bool by_default = set_pipeline(builder, keys, pp);
  if (by_default && builder.source().has("distributed.pipeline.layers_per_stage")) {
    builder.note("layers_per_stage was not followed: set pipeline.virtual_stages or split_points");
  }
}

void read_distributed(PlanBuilder& builder) {
  Source& source = builder.source();
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
  builder.set_mesh(1, dp, size("tp_size"), pp, size("cp_size"), size("ep_size"), kDp);
  if (replicas > 1) {
    builder.set("mesh.dp_replicate_size", replicas, "distributed.dp_replicate_size");
  }
  read_strategy(builder);
  if (pp > 1) read_pipeline(builder, pp);
}

void read_batches(PlanBuilder& builder) {
  Source& source = builder.source();
  const int64_t pp = builder.plan().mesh.pp_size;
  constexpr const char* kLocal = "step_scheduler.local_batch_size";
  const int64_t local = source.integer(kLocal, 1).value_or(1);
  const int64_t micro = source.integer("distributed.pipeline.pp_microbatch_size", 1).value_or(1);
  source.skip("distributed.pipeline.pp_batch_size");
  set_batches(builder, local, micro, pp, kLocal);
  builder.set("train.global_batch_size",
              source.integer("step_scheduler.global_batch_size", 1).value_or(32),
              "step_scheduler.global_batch_size");
  read_keys(kNemoAutomodelKeys, "step_scheduler.", builder);
  read_keys(kNemoAutomodelKeys, "clip_grad_norm.", builder);
  for (const char* key :
       {"packed_sequence.packed_sequence_size", "dataset.seq_length", "dataset.seq_len"}) {
    if (source.integer(key).value_or(0) > 0) builder.copy(key, "train.seq_len");
  }
}

void read_data(PlanBuilder& builder) {
  Source& source = builder.source();
  const std::string target = source.text("dataset._target_").value_or("");
  if (ends_with(target, "MegatronPretraining")) {
    builder.copy("dataset.paths", "data.path");
    builder.set("data.kind", "megatron", "dataset._target_");
  } else if (ends_with(target, "NanogptDataset")) {
    builder.copy("dataset.file_pattern", "data.path");
    builder.set("data.kind", "tokens", "dataset._target_");
  } else if (!target.empty() && !ends_with(target, "MockIterableDataset")) {
    builder.note(cat("a plan cannot read ", target, ": its data is synthetic"));
  }
  read_keys(kNemoAutomodelKeys, "dataloader.", builder);
}

void read_training(PlanBuilder& builder) {
  Source& source = builder.source();
  for (const char* section : {"seed", "optimizer.", "checkpoint."}) {
    read_keys(kNemoAutomodelKeys, section, builder);
  }
  read_torch_optimizer(builder, "optimizer._target_", "optimizer.");
  builder.copy("model.pretrained_model_name_or_path", "model.path");
  const std::string dtype = source.text("model.torch_dtype").value_or("");
  if (!dtype.empty() && dtype != "auto") builder.set("model.dtype", dtype, "model.torch_dtype");
}

// Modules to leave out are the plan's where they are the head alone.
void read_excluded(PlanBuilder& builder, bool all_linear) {
  constexpr const char* kExcluded = "peft.exclude_modules";
  const config::Value* excluded = builder.source().take(kExcluded);
  bool head = false;
  for (size_t i = 0; excluded != nullptr && i < excluded->items.size(); ++i) {
    const std::string& name = excluded->items[i].text;
    head = ends_with(name, "lm_head");
    if (head) continue;
    builder.source().refuse(kExcluded, cat("a plan leaves no \"", name, "\" out of adapters"),
                            "name those that have one in target_modules");
  }
  if (all_linear && !head) {
    builder.note("AutoModel's match_all_linear adapts the head too; a plan's all-linear does not");
  }
}

void read_peft(PlanBuilder& builder) {
  constexpr const char* kTargets = "peft.target_modules";
  constexpr const char* kAll = "peft.match_all_linear";
  Source& source = builder.source();
  if (!source.has("peft")) return;
  source.skip("peft._target_");
  source.skip("peft.use_triton");
  read_keys(kNemoAutomodelKeys, "peft.", builder);
  const bool all = source.boolean(kAll).value_or(false);
  if (all) {
    source.skip(kTargets);
    builder.set("lora.target_modules", "all-linear", kAll);
  } else if (source.has(kTargets)) {
    builder.copy(kTargets, "lora.target_modules");
  } else {
    source.refuse("peft", "no module has an adapter", "target_modules, or match_all_linear: true");
  }
  read_excluded(builder, all);
}

void read_scheduler(PlanBuilder& builder) {
  Source& source = builder.source();
  if (!source.has("lr_scheduler")) return;  // constant
  constexpr const char* kStyle = "lr_scheduler.lr_decay_style";
  std::string style = source.text(kStyle).value_or("cosine");
  if (style == "WSD") style = "wsd";
  if (style == "inverse-square-root") {
    builder.note("a plan has no inverse-square-root decay: linear was taken");
    style = "linear";
  }
  builder.set("scheduler.name", style, kStyle);
  read_keys(kNemoAutomodelKeys, "lr_scheduler.", builder);
  source.skip("lr_scheduler.init_lr");
  source.skip("lr_scheduler.lr_wsd_decay_style");
  source.skip(style == "wsd" ? "lr_scheduler.lr_decay_steps" : "lr_scheduler.wsd_decay_steps");
  if (style == "constant") {
    source.skip("lr_scheduler.min_lr");
    source.skip("lr_scheduler.lr_decay_steps");
    return;
  }
  builder.copy("lr_scheduler.min_lr", "scheduler.min_lr");
  builder.copy(style == "wsd" ? "lr_scheduler.wsd_decay_steps" : "lr_scheduler.lr_decay_steps",
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
  PlanBuilder builder(source, strategy);
  read_distributed(builder);
  read_batches(builder);
  read_data(builder);
  read_training(builder);
  read_scheduler(builder);
  read_peft(builder);
  return builder.done(source.ignored("a plan has no key for it"));
}

}  // namespace am::exchange
