// Import of NeMo AutoModel's recipes.
#include <array>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/config/yaml_reader.h"
#include "am/frameworks/frameworks.h"
#include "am/frameworks/nemo_automodel/config.h"
#include "am/frameworks/optimizers.h"

namespace am::frameworks {
namespace {

// Reads the activation-checkpointing mode. AutoModel accepts booleans, and words such as "full" and
// "none".
void read_checkpointing(PlanBuilder& builder) {
  Source& source = builder.source();
  const char* kKey = source.has("distributed.activation_checkpointing")
                         ? "distributed.activation_checkpointing"
                         : "parallelizer.activation_checkpointing";
  constexpr const char* kScope = "distributed.activation_checkpointing_scope";
  const std::string scope = source.text(kScope).value_or("all");
  if (scope != "all" && scope.find("language") == std::string::npos) {
    source.skip(kKey);  // applies only to encoders, which a plan's model does not have
    return;
  }
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

// Reads mp_policy and offload_policy. Skips `_target_`, the class name in each of these sections.
// Missing members get AutoModel's defaults.
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
    policy.members.push_back({key, policy.span, config::value_of(dtype, source.span(path))});
  }
  constexpr const char* kCast = "distributed.mp_policy.cast_forward_inputs";
  policy.members.push_back(
      {"cast_forward_inputs", policy.span,
       config::value_of(source.boolean(kCast).value_or(false), source.span(kCast))});
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
  for (const char* key : {"compile.enabled", "compile.enable"}) {
    if (builder.source().boolean(key).value_or(false)) {
      builder.set("strategy.enable_compile", true, key);
    }
  }
  read_keys(kNemoAutomodelKeys, "dist_env.", builder);
}

// Reads reshard_after_forward for models under expert parallelism. If neither the section `moe` nor
// the strategy contains this key, AutoModel keeps the layers of these models gathered.
void read_experts(PlanBuilder& builder) {
  Source& source = builder.source();
  constexpr const char* kOurs = "strategy.reshard_after_forward";
  const char* kTheirs = source.has("distributed.moe") ? "distributed.moe.reshard_after_forward"
                                                      : "parallelizer.reshard_after_forward";
  // AutoModel ignores the section distributed.moe if ep_size is 1.
  if (builder.plan().mesh.ep_size == 1) return source.skip("distributed.moe");
  const bool frees = source.boolean(kTheirs).value_or(false);
  if (builder.knows(kOurs) && !source.has("distributed.reshard_after_forward")) {
    builder.set(kOurs, frees, kTheirs);
  }
}

// Returns the path of a pipeline setting, for example "distributed.pipeline.pp_schedule". In older
// recipes, the settings are in the section `autopipeline`.
std::string pipeline_key(const Source& source, const char* name) {
  const bool older = !source.has("distributed.pipeline") && source.has("autopipeline");
  return cat(older ? "autopipeline." : "distributed.pipeline.", name);
}

void read_pipeline(PlanBuilder& builder, int64_t pp) {
  const Source& source = builder.source();
  const std::string schedule = pipeline_key(source, "pp_schedule");
  const std::string file = pipeline_key(source, "pp_schedule_csv");
  const std::string modules = pipeline_key(source, "module_fqns_per_model_part");
  const std::string layers = pipeline_key(source, "layers_per_stage");
  const std::string round = pipeline_key(source, "round_virtual_stages_to_pp_multiple");
  const PipelineKeys keys = {
      .schedule = schedule,
      .file = file,
      .absent = "1f1b",
      .known = "1f1b, gpipe, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble or ZBVZeroBubble",
      .modules = modules,
      .layers_per_stage = layers,
      .round = round};
  set_pipeline(builder, keys, pp);
}

void read_distributed(PlanBuilder& builder) {
  Source& source = builder.source();
  const auto axis = [&](const char* key) -> PlanBuilder::Axis {
    const std::string path = cat("distributed.", key);
    return {source.size(path, 1), path};
  };
  const PlanBuilder::Axis stages = axis("pp_size");
  const int64_t pp = stages.size;
  const int64_t replicas = axis("dp_replicate_size").size;
  constexpr const char* kDp = "distributed.dp_size";
  const bool given = source.has(kDp) && source.integer(kDp).value_or(0) > 0;
  const int64_t dp = given ? source.size(kDp, 1) : 0;
  builder.set_mesh({.dp_shard = {dp, kDp},
                    .tp = axis("tp_size"),
                    .pp = stages,
                    .cp = axis("cp_size"),
                    .ep = axis("ep_size")});
  if (replicas > 1) {
    builder.set("mesh.dp_replicate_size", replicas, "distributed.dp_replicate_size");
  }
  read_strategy(builder);
  read_experts(builder);
  if (pp > 1) {
    read_pipeline(builder, pp);
  } else {
    for (const char* section : {"distributed.pipeline", "autopipeline"}) {
      source.skip(section);  // AutoModel ignores these sections if pp_size is 1
    }
  }
}

void read_batches(PlanBuilder& builder) {
  Source& source = builder.source();
  const int64_t pp = builder.plan().mesh.pp_size;
  constexpr const char* kLocal = "step_scheduler.local_batch_size";
  const int64_t local = source.integer(kLocal, 1).value_or(1);
  const int64_t micro = source.integer(pipeline_key(source, "pp_microbatch_size"), 1).value_or(1);
  source.skip("distributed.pipeline.pp_batch_size");
  set_batches(builder, local, micro, pp, kLocal);
  builder.set("train.global_batch_size",
              source.integer("step_scheduler.global_batch_size", 1).value_or(32),
              "step_scheduler.global_batch_size");
  read_keys(kNemoAutomodelKeys, "step_scheduler.", builder);
  read_keys(kNemoAutomodelKeys, "clip_grad_norm.", builder);
  for (const char* key : {"packed_sequence.packed_sequence_size", "packed_sequence.pack_size",
                          "dataset.seq_length", "dataset.seq_len"}) {
    if (source.integer(key).value_or(0) > 0) builder.copy(key, "train.seq_len");
  }
}

// Reads the model's path, name and dtype. The dtype "auto" means the checkpoint's dtype or, for a
// model that is created from its config without a checkpoint, bfloat16.
void read_model(PlanBuilder& builder) {
  Source& source = builder.source();
  const char* path = "model.pretrained_model_name_or_path";
  const bool from_config = !source.has(path);
  for (const char* key : {"model.config.pretrained_model_name_or_path", "model.config.name_or_path",
                          "model.config"}) {
    const config::Value* value = source.find(key);
    if (source.has(path) || value == nullptr || value->is_table()) continue;
    path = key;
  }
  builder.copy(path, "model.path");
  builder.name_model(path);
  const char* key = source.has("model.torch_dtype") ? "model.torch_dtype" : "model.dtype";
  std::string dtype = source.text(key).value_or("auto");
  if (starts_with(dtype, "torch.")) dtype = dtype.substr(6);
  if (dtype == "auto" && from_config) dtype = "bfloat16";
  if (dtype == "auto" && builder.model() != nullptr) dtype = builder.model()->dtype;
  if (dtype == "auto") {
    builder.note("torch_dtype is auto, which means the checkpoint's dtype; the plan has float32");
  } else {
    builder.set("model.dtype", dtype, key);
  }
}

// Returns the model sizes in the recipe. In AutoModel, these sizes override the sizes in the
// model's config.json.
std::vector<Geometry> read_geometry(Source& source) {
  std::vector<Geometry> sizes;
  for (const char* section : {"model.", "model.config.", "model.text_config."}) {
    for (const char* key :
         {"num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
          "num_key_value_heads", "num_experts_per_tok", "moe_intermediate_size", "num_experts",
          "n_routed_experts", "n_layer", "n_embd", "n_head", "head_dim", "vocab_size"}) {
      const std::string path = cat(section, key);
      const config::Value* value = source.find(path);
      if (value == nullptr || value->kind != config::Value::Kind::kInteger) continue;
      const std::string_view name = key;
      const std::string_view ours = name == "n_routed_experts" ? "num_experts"
                                    : name == "n_layer"        ? "num_hidden_layers"
                                    : name == "n_embd"         ? "hidden_size"
                                    : name == "n_head"         ? "num_attention_heads"
                                                               : name;
      sizes.push_back({path, ours, value->integer, value->span});
    }
  }
  return sizes;
}

void read_training(PlanBuilder& builder) {
  Source& source = builder.source();
  for (const char* section : {"seed", "optimizer.", "checkpoint."}) {
    read_keys(kNemoAutomodelKeys, section, builder);
  }
  if (!source.has("seed")) builder.copy("rng.seed", "model.seed");
  read_torch_optimizer(builder, "optimizer._target_", "optimizer.");
  read_model(builder);
  for (const char* key :
       {"optimizer.exp_avg_dtype", "optimizer.exp_avg_sq_dtype", "optimizer.master_weight_dtype"}) {
    if (source.has(key) && !ends_with(source.text(key).value_or(""), "float32")) {
      builder.lose(key, "the dtype of the optimizer's states");
    }
  }
  if (source.integer("optimizer.master_weight_bits").value_or(32) != 32) {
    builder.lose("optimizer.master_weight_bits", "the dtype of the optimizer's weights");
  }
  if (source.boolean("optimizer.master_weights").value_or(false)) {
    // fsdp2 stores float32 weights, which are the master weights. With store_param_remainders,
    // AutoModel keeps only the low 16 bits of each master weight separately. A plan cannot express
    // this option.
    builder.set("model.dtype", "float32", "optimizer.master_weights");
    source.skip("optimizer.store_param_remainders");
  }
  if (source.boolean("freeze_config.freeze_embeddings").value_or(false)) {
    const Span span = source.span("freeze_config.freeze_embeddings");
    builder.set("model.freeze_params",
                config::value_of({config::value_of(std::string("*embed_tokens*"), span)}, span));
  }
}

// Whether a pattern of module names matches image or audio encoders, which a plan's model does not
// contain.
bool is_outside_of_text(std::string_view pattern) {
  for (const char* word : {"vision", "visual", "image", "audio", "multi_modal", "mm_projector"}) {
    if (pattern.find(word) != std::string_view::npos) return true;
  }
  return false;
}

// Reads peft.exclude_modules. A plan's "all-linear" excludes only the head. If a pattern excludes
// other modules of the text model, the setting is recorded as lost.
void read_excluded(PlanBuilder& builder) {
  constexpr const char* kExcluded = "peft.exclude_modules";
  const config::Value* excluded = builder.source().take(kExcluded);
  bool head = false;
  for (size_t i = 0; excluded != nullptr && i < excluded->items.size(); ++i) {
    const std::string& name = excluded->items[i].text;
    const bool of_text = !is_outside_of_text(name);
    head = head || ends_with(name, "lm_head");
    if (!of_text || ends_with(name, "lm_head")) continue;
    builder.lose(kExcluded,
                 "which modules have adapters: a plan lists modules that have an adapter and "
                 "cannot exclude any");
    return;
  }
  if (!head) {
    builder.note(
        "AutoModel adapts all linear modules including the head; a plan's all-linear excludes the "
        "head");
  }
}

// Reads the quantization of the base model (QLoRA).
void read_quantization(PlanBuilder& builder) {
  constexpr const char* kType = "quantization.bnb_4bit_quant_type";
  Source& source = builder.source();
  if (!source.boolean("quantization.load_in_4bit").value_or(false)) return;
  if (source.text(kType).value_or("nf4") != "nf4") {
    return builder.lose(kType, "how values are quantized");
  }
  builder.set("lora.quantize_base", "nf4", "quantization.load_in_4bit");
  source.skip("quantization.bnb_4bit_compute_dtype");
  source.skip("quantization.bnb_4bit_quant_storage");
  if (source.boolean("quantization.bnb_4bit_use_double_quant").value_or(true)) {
    builder.note(
        "plans do not support double quantization: the largest magnitude of each nf4 block stays "
        "float32, which takes 0.37 more bits per value");
  }
}

void read_peft(PlanBuilder& builder) {
  constexpr const char* kTargets = "peft.target_modules";
  constexpr const char* kAll = "peft.match_all_linear";
  Source& source = builder.source();
  if (!source.has("peft")) return;
  source.skip("peft._target_");
  source.skip("peft.use_triton");
  read_quantization(builder);
  read_keys(kNemoAutomodelKeys, "peft.", builder);
  const bool all = source.boolean(kAll).value_or(false);
  const bool but_some = source.has("peft.exclude_modules");
  if (source.has(kTargets) && !all) {
    builder.copy(kTargets, "lora.target_modules");
  } else if (all || but_some) {
    source.skip(kTargets);
    builder.set("lora.target_modules", "all-linear", all ? kAll : "peft.exclude_modules");
    read_excluded(builder);
  } else {
    builder.set("lora.target_modules", "*_proj", "peft");  // AutoModel's default modules
  }
}

void read_scheduler(PlanBuilder& builder) {
  Source& source = builder.source();
  if (!source.has("lr_scheduler")) return;  // constant learning rate, a plan's default
  constexpr const char* kStyle = "lr_scheduler.lr_decay_style";
  std::string style = source.text(kStyle).value_or("cosine");
  if (style == "WSD") style = "wsd";
  if (style == "inverse-square-root") {
    builder.note(
        "plans do not support inverse-square-root decay: the plan has linear decay instead");
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

// Removes settings with the value `none` or `None`. AutoModel reads this value as null, but a YAML
// reader reads it as text.
void drop_nones(config::Value& value) {
  std::erase_if(value.members, [](const config::Member& member) {
    return member.value.kind == config::Value::Kind::kText &&
           (member.value.text == "none" || member.value.text == "None");
  });
  for (config::Member& member : value.members) drop_nones(member.value);
  for (config::Value& item : value.items) drop_nones(item);
}

// Reads the recipe's kind of training. A plan trains a causal language model. Recipes for other
// kinds have the same keys, so their kind is recorded as lost. For a multimodal model, a note
// states that the plan contains only the text model.
void read_kind(PlanBuilder& builder) {
  Source& source = builder.source();
  for (const char* key : {"model._target_", "recipe._target_", "recipe"}) {
    const config::Value* value = source.take(key);
    if (value == nullptr || value->kind != config::Value::Kind::kText) continue;
    for (const char* other : {"BiEncoder", "CrossEncoder", "SequenceClassification", "Seq2Seq",
                              "Diffusion", "Drafter"}) {
      if (value->text.find(other) == std::string::npos) continue;
      return builder.lose(key, "what is trained: a plan trains a causal language model");
    }
    for (const char* more : {"ImageTextToText", "MultimodalLM", "ForVLM"}) {
      if (value->text.find(more) == std::string::npos) continue;
      return builder.note(cat(value->text,
                              " has encoders besides its text model: the plan has only the ",
                              "text model"));
    }
  }
}

// Returns the strategy of an older recipe. Instead of the strategy's name, an older recipe contains
// the name of the class that manages the strategy.
std::string strategy_of_class(Source& source) {
  const std::string target = source.text("distributed._target_").value_or("");
  if (ends_with(target, "DDPManager")) return "ddp";
  return ends_with(target, "MegatronFSDPManager") ? "megatron_fsdp" : "fsdp2";
}

}  // namespace

std::optional<Imported> read_nemo_automodel(const ImportInput& input) {
  auto root = config::read_yaml(input.text, input.file, input.found);
  if (!root.has_value()) return std::nullopt;
  drop_nones(*root);
  Source source(std::move(*root), input.file, input.found);
  if (!source.has_any({"recipe", "distributed", "step_scheduler", "dist_env", "model._target_",
                       "model.pretrained_model_name_or_path"})) {
    source.refuse_framework("NeMo AutoModel",
                            "recipe, distributed, step_scheduler, dist_env and a model's _target_");
    return std::nullopt;
  }
  constexpr const char* kStrategy = "distributed.strategy";
  std::string strategy = source.text(kStrategy).value_or(strategy_of_class(source));
  if (strategy == "megatron-fsdp" || strategy == "mfsdp") strategy = "megatron_fsdp";
  if (strategy != "fsdp2" && strategy != "megatron_fsdp" && strategy != "ddp") {
    source.refuse(kStrategy, cat("unknown strategy \"", strategy, "\""),
                  "legal values: fsdp2, megatron_fsdp or ddp");
    return std::nullopt;
  }
  source.skip("checkpoint.enabled");
  PlanBuilder builder(source, strategy, input.model);
  read_kind(builder);
  read_distributed(builder);
  read_batches(builder);
  read_nemo_data(builder);
  read_training(builder);
  read_scheduler(builder);
  read_peft(builder);
  std::vector<Geometry> geometry = read_geometry(source);
  Imported imported =
      builder.done(source.ignored("a plan has no key for it"), "lr_scheduler.lr_warmup_steps");
  imported.geometry = std::move(geometry);
  return imported;
}

}  // namespace am::frameworks
