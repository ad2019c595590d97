// NeMo AutoModel: the YAML of a recipe. Our strategies have its keys by their own names.
#include <array>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/planner/exchange/draft.h"
#include "am/planner/exchange/facts.h"
#include "am/planner/exchange/frameworks.h"
#include "am/planner/exchange/yaml_reader.h"
#include "am/planner/exchange/yaml_writer.h"

namespace am::planner {
namespace {

constexpr std::array<Reason, 10> kReasons = {{
    {"strategy.tp_plan", "a recipe takes the name of a Python object"},
    {"strategy.reshard_after_forward", "a recipe says only whether, not to how many ranks"},
    {"strategy.activation_checkpointing", "this strategy checkpoints fully or not at all"},
    {"strategy.bucket_cap_mb", "AutoModel takes PyTorch's"},
    {"model.weights", "a recipe loads the weights beside the model's config, or none"},
    {"train.seed", "a recipe has one seed, and that is the model's"},
    {"metrics.", "AutoModel has its own metrics"},
    {"checkpoint.every", "AutoModel saves at the end anyway"},
    {"checkpoint.resume", "AutoModel takes the newest, or the one it is told"},
    {"checkpoint.export", "AutoModel saves safetensors anyway"},
}};

constexpr const char* kModelTarget = "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained";
constexpr const char* kPolicyTarget = "torch.distributed.fsdp.MixedPrecisionPolicy";
constexpr const char* kOffloadTarget = "torch.distributed.fsdp.CPUOffloadPolicy";

// ---- writing
// -------------------------------------------------------------------------------------

Json module_lists(const ExportInput& input) {
  Json lists = Json::array();
  const Layout& layout = input.layout;
  const int64_t stages = static_cast<int64_t>(layout.stage_owners.size());
  for (int64_t stage = 0; stage < stages; ++stage) {
    std::vector<std::string> names;
    const auto add = [&names](const std::string& name) {
      if (names.empty() || names.back() != name) names.push_back(name);
    };
    for (size_t i = 0; i < layout.parameters.size(); ++i) {
      if (layout.parameters[i].stage != stage) continue;
      const model::ParameterSpec& spec = layout.inventory.parameters[i];
      add(spec.layer < 0 ? spec.module() : cat(layout.inventory.names.layers, ".", spec.layer));
    }
    const std::string_view layers = layout.inventory.names.layers;
    names.push_back(cat(layers.substr(0, layers.rfind('.')), ".rotary_emb"));
    lists.push_back(names);
  }
  return lists;
}

bool is_default_split(const Facts& facts) {
  const std::string& schedule = facts.plan.pipeline.schedule;
  const bool single = schedule == "1f1b" || schedule == "gpipe";
  return facts.plan.pipeline.split_points.empty() &&
         facts.plan.pipeline.virtual_stages == (single ? 1 : 2);
}

void write_strategy(const Facts& facts, Json& distributed) {
  Json keys = config::to_dict(facts.plan.strategy);
  for (const char* ours : {"backend", "bucket_cap_mb"}) keys.erase(ours);
  if (facts.ddp != nullptr) keys["bucket_cap_mb"] = facts.ddp->bucket_cap_mb;
  for (const auto& [key, value] : keys.items()) {
    const config::FieldSpec* field =
        config::find_field("strategy", key, config::strategy_name(facts.plan.strategy));
    if (field == nullptr || key == "name" || key == "tp_plan") continue;
    Json now = field->get(facts.plan);
    const bool list = now.is_array() && now.empty();
    if (now.is_null() || list || key == "mp_policy" || key == "offload_policy") continue;
    if (key == "reshard_after_forward" && !now.is_boolean()) continue;
    distributed[key] = std::move(now);
  }
  if (facts.fsdp2 == nullptr) return;
  const config::MixedPrecisionPolicy& policy = facts.fsdp2->mp_policy;
  Json& to = distributed["mp_policy"];
  to["_target_"] = kPolicyTarget;
  const auto dtype = [&](const std::optional<std::string>& name) {
    return name.has_value() ? Json(*name) : Json(nullptr);
  };
  to["param_dtype"] = dtype(policy.param_dtype);
  to["reduce_dtype"] = dtype(policy.reduce_dtype);
  to["output_dtype"] = dtype(policy.output_dtype);
  to["cast_forward_inputs"] = policy.cast_forward_inputs;
  if (facts.fsdp2->offload_policy) {
    distributed["offload_policy"] = {{"_target_", kOffloadTarget},
                                     {"pin_memory", facts.fsdp2->offload_policy->pin_memory}};
  }
}

void write_distributed(const ExportInput& input, const Facts& facts, Json& out) {
  Json& to = out["distributed"];
  to["strategy"] = config::strategy_name(facts.plan.strategy);
  to["dp_size"] = facts.mesh.dp();
  if (facts.ddp == nullptr) to["dp_replicate_size"] = facts.mesh.dp_replicate;
  to["tp_size"] = facts.mesh.tp;
  to["pp_size"] = facts.mesh.pp;
  to["cp_size"] = facts.mesh.cp;
  to["ep_size"] = facts.mesh.ep;
  write_strategy(facts, to);
  if (facts.mesh.pp == 1) return;
  Json& pipeline = to["pipeline"];
  pipeline["pp_schedule"] = torch_schedule_name(facts.plan.pipeline.schedule);
  pipeline["pp_microbatch_size"] = facts.plan.train.micro_batch_size;
  pipeline["pp_batch_size"] = facts.local_batch();
  if (!is_default_split(facts)) pipeline["module_fqns_per_model_part"] = module_lists(input);
}

void write_data(const Facts& facts, Json& out) {
  const config::DataSection& data = facts.plan.data;
  Json& to = out["dataset"];
  const int64_t seq_len = facts.plan.train.seq_len;
  if (data.kind == "megatron") {
    to["_target_"] = "nemo_automodel.components.datasets.llm.megatron_dataset.MegatronPretraining";
    to["paths"] = data.path;
    to["seq_length"] = seq_len;
  } else if (data.kind == "tokens") {
    to["_target_"] = "nemo_automodel.components.datasets.llm.nanogpt_dataset.NanogptDataset";
    to["file_pattern"] = data.path;
    to["seq_len"] = seq_len;
  } else {
    to["_target_"] =
        "nemo_automodel.components.datasets.llm.mock_iterable_dataset.MockIterableDataset";
    to["seq_len"] = seq_len;
  }
  out["dataloader"]["shuffle"] = data.shuffle;
}

void write_scheduler(const Facts& facts, Json& out) {
  const config::SchedulerSection& scheduler = facts.plan.scheduler;
  Json& to = out["lr_scheduler"];
  to["lr_decay_style"] = scheduler.name == "wsd" ? "WSD" : scheduler.name;
  to["lr_warmup_steps"] = scheduler.warmup_steps;
  to["init_lr"] = 0.0;
  to["min_lr"] = scheduler.name == "constant" ? facts.plan.optimizer.lr : scheduler.min_lr;
  const int64_t steps = facts.plan.train.max_steps;
  const bool wsd = scheduler.name == "wsd";
  to["lr_decay_steps"] = scheduler.decay_steps > 0 && !wsd ? scheduler.decay_steps : steps;
  if (wsd) {
    to["wsd_decay_steps"] = scheduler.decay_steps;
    to["lr_wsd_decay_style"] = "linear";
  }
}

Exported write(const ExportInput& input) {
  const Facts facts(input);
  const config::Plan& plan = facts.plan;
  Json out = Json::object();
  out["recipe"] = "TrainFinetuneRecipeForNextTokenPrediction";
  out["seed"] = plan.model.seed;
  Json& steps = out["step_scheduler"];
  steps["global_batch_size"] = facts.global_batch;
  steps["local_batch_size"] = facts.local_batch();
  steps["max_steps"] = plan.train.max_steps;
  if (plan.checkpoint.every > 0) steps["ckpt_every_steps"] = plan.checkpoint.every;
  const auto backend = std::visit([](const auto& config) { return config.backend; }, plan.strategy);
  if (backend.has_value()) out["dist_env"]["backend"] = *backend;
  write_distributed(input, facts, out);
  out["model"] = {{"_target_", kModelTarget},
                  {"pretrained_model_name_or_path", facts.model},
                  {"torch_dtype", plan.model.dtype}};
  write_data(facts, out);
  out["optimizer"] = {{"_target_", "torch.optim.AdamW"},
                      {"lr", plan.optimizer.lr},
                      {"betas", {plan.optimizer.betas[0], plan.optimizer.betas[1]}},
                      {"eps", plan.optimizer.eps},
                      {"weight_decay", plan.optimizer.weight_decay}};
  write_scheduler(facts, out);
  out["clip_grad_norm"]["max_norm"] =
      plan.train.max_grad_norm > 0 ? plan.train.max_grad_norm : kNoClipping;
  Json& checkpoint = out["checkpoint"];
  checkpoint["enabled"] = true;
  if (!plan.checkpoint.dir.empty()) checkpoint["checkpoint_dir"] = plan.checkpoint.dir;
  if (plan.checkpoint.async) checkpoint["is_async"] = true;
  if (plan.checkpoint.keep > 0) checkpoint["max_recent_checkpoints"] = plan.checkpoint.keep;
  Exported exported;
  exported.text = write_yaml(out);
  if (plan.data.kind == "text" || plan.data.kind == "synthetic") {
    exported.notes.push_back("the dataset is AutoModel's mock: put yours in its place");
  }
  return exported;
}

// ---- reading
// -------------------------------------------------------------------------------------

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
  policy.members.push_back({"cast_forward_inputs", policy.span,
                            boolean_value(source.boolean(kCast).value_or(false),
                                          source.span(kCast))});
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
    source.refuse(kSchedule, cat("a plan has no schedule \"", named, "\""),
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
  const auto size = [&](const char* key) { return source.size(cat("distributed.", key), 1); };
  const int64_t pp = size("pp_size");
  const int64_t replicas = size("dp_replicate_size");
  constexpr const char* kDp = "distributed.dp_size";
  const bool given = source.has(kDp) && source.integer(kDp).value_or(0) > 0;
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
  const int64_t micro =
      source.integer("distributed.pipeline.pp_microbatch_size", 1).value_or(1);
  source.skip("distributed.pipeline.pp_batch_size");
  set_batches(draft, local, micro, pp, kLocal);
  draft.set("train.global_batch_size",
            source.integer("step_scheduler.global_batch_size", 1).value_or(32),
            "step_scheduler.global_batch_size");
  draft.copy("step_scheduler.max_steps", "train.max_steps");
  draft.copy("step_scheduler.ckpt_every_steps", "checkpoint.every");
  const double norm = source.number("clip_grad_norm.max_norm").value_or(1.0);
  draft.set("train.max_grad_norm", norm >= kNoClipping ? 0.0 : norm, "clip_grad_norm.max_norm");
  for (const char* key : {"packed_sequence.packed_sequence_size", "dataset.seq_length",
                          "dataset.seq_len"}) {
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
  for (const auto& [theirs, ours] :
       {std::pair{"seed", "model.seed"}, {"optimizer.lr", "optimizer.lr"},
        {"optimizer.betas", "optimizer.betas"}, {"optimizer.eps", "optimizer.eps"},
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

std::optional<Imported> read(std::string_view text, const std::string& file, Diagnostics& found) {
  auto root = read_yaml(text, file, found);
  if (!root.has_value()) return std::nullopt;
  Source source(std::move(*root), file, found);
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

}  // namespace

const Framework kNemoAutomodel = {.name = "nemo-automodel",
                                  .title = "NeMo AutoModel",
                                  .format = "YAML",
                                  .has_flags = false,
                                  .reasons = kReasons,
                                  .write = write,
                                  .read = read};

}  // namespace am::planner
