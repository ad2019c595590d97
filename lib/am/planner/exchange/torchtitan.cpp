// torchtitan: its TOML job files (up to 0.2), and the flags of its command line (0.3).
#include <array>
#include <cmath>

#include "am/base/text.h"
#include "am/config/write.h"
#include "am/planner/exchange/draft.h"
#include "am/planner/exchange/facts.h"
#include "am/planner/exchange/frameworks.h"
#include "am/planner/exchange/words.h"

namespace am::planner {
namespace {

constexpr std::array<Reason, 11> kReasons = {{
    {"strategy.name", "FSDP2 shards as Megatron's stage 3 does: it is read back as fsdp2"},
    {"strategy.tp_plan", "torchtitan's models bring their own TP plans"},
    {"strategy.sequence_parallel", "a job file always has it with tensor parallelism"},
    {"strategy.reshard_after_forward",
     "with a pipeline torchtitan's default keeps parameters gathered: \"always\" was written"},
    {"strategy.mp_policy.reduce_dtype", "torchtitan reduces gradients in float32"},
    {"strategy.mp_policy.", "torchtitan sets the parameters' dtype, bfloat16 or float32, alone"},
    {"pipeline.split_points", "a list of lists is no flag: write it in the model's configuration"},
    {"optimizer.", "0.3 configures the optimizer in Python, not with flags"},
    {"scheduler.", "torchtitan's schedule has other terms"},
    {"train.seed", "torchtitan has one seed, and that is the model's"},
    {"checkpoint.keep", "torchtitan keeps all (0) or at least two"},
}};

// ---- writing
// -------------------------------------------------------------------------------------

void write_model(const Facts& facts, Json& out) {
  out["model"]["hf_assets_path"] = facts.model;
}

void write_training(const Facts& facts, Json& out) {
  const config::Plan& plan = facts.plan;
  Json& training = out["training"];
  training["local_batch_size"] = facts.local_batch();
  training["global_batch_size"] = facts.global_batch;
  training["seq_len"] = plan.train.seq_len;
  training["steps"] = plan.train.max_steps;
  training["max_norm"] = plan.train.max_grad_norm > 0 ? plan.train.max_grad_norm : kNoClipping;
  if (plan.model.dtype != "float16") training["dtype"] = plan.model.dtype;
  const std::string param =
      facts.fsdp2 != nullptr && facts.fsdp2->mp_policy.param_dtype.has_value()
          ? *facts.fsdp2->mp_policy.param_dtype
          : plan.model.dtype;
  if (param != "float16") training["mixed_precision_param"] = param;
  training["mixed_precision_reduce"] = "float32";
  if (facts.fsdp2 != nullptr && facts.fsdp2->offload_policy) training["enable_cpu_offload"] = true;
}

const char* reshard_policy(const Facts& facts) {
  const auto* set = facts.fsdp2 != nullptr && facts.fsdp2->reshard_after_forward
                        ? std::get_if<bool>(&*facts.fsdp2->reshard_after_forward)
                        : nullptr;
  if (set != nullptr) return *set ? "always" : "never";
  return facts.mesh.pp > 1 ? "always" : "default";
}

Json module_lists(const Facts& facts) {
  Json lists = Json::array();
  for (size_t i = 0; i < facts.stages.size(); ++i) {
    Json names = Json::array();
    if (i == 0) names.push_back("tok_embeddings");
    for (int64_t layer = facts.stages[i].first; layer < facts.stages[i].second; ++layer) {
      names.push_back(cat("layers.", layer));
    }
    if (i + 1 == facts.stages.size()) {
      names.push_back("norm");
      names.push_back("output");
    }
    lists.push_back(std::move(names));
  }
  return lists;
}

void write_parallelism(const Facts& facts, bool flags, Json& out) {
  Json& parallelism = out["parallelism"];
  parallelism["data_parallel_replicate_degree"] = facts.mesh.dp_replicate;
  parallelism["data_parallel_shard_degree"] = facts.mesh.dp_shard;
  parallelism["fsdp_reshard_after_forward"] = reshard_policy(facts);
  parallelism["tensor_parallel_degree"] = facts.mesh.tp;
  if (flags && facts.mesh.tp > 1) {
    parallelism["enable_sequence_parallel"] =
        facts.fsdp2 != nullptr && facts.fsdp2->sequence_parallel;
  }
  const bool async = facts.fsdp2 != nullptr && facts.fsdp2->enable_async_tensor_parallel;
  const bool compiled = facts.fsdp2 != nullptr && facts.fsdp2->enable_compile;
  if (async) out[flags ? "compile" : "parallelism"]["enable_async_tensor_parallel"] = true;
  parallelism["context_parallel_degree"] = facts.mesh.cp;
  parallelism["expert_parallel_degree"] = facts.mesh.ep;
  parallelism["pipeline_parallel_degree"] = facts.mesh.pp;
  if (facts.mesh.pp > 1) {
    parallelism["pipeline_parallel_schedule"] = torch_schedule_name(facts.plan.pipeline.schedule);
    parallelism["pipeline_parallel_microbatch_size"] = facts.plan.train.micro_batch_size;
    parallelism["module_fqns_per_model_part"] = module_lists(facts);
  }
  if (compiled) out["compile"]["enable"] = true;
}

void write_checkpointing(const Facts& facts, Json& out) {
  if (!facts.checkpoints) {
    out["activation_checkpoint"]["mode"] = "none";
    return;
  }
  const bool selective =
      facts.fsdp2 != nullptr &&
      facts.fsdp2->activation_checkpointing == config::ActivationCheckpointing::kSelective;
  out["activation_checkpoint"]["mode"] = selective ? "selective" : "full";
  if (selective) out["activation_checkpoint"]["selective_ac_option"] = "op";
}

void write_optimizer(const Facts& facts, Json& out) {
  const config::OptimizerSection& optimizer = facts.plan.optimizer;
  out["optimizer"] = {{"name", "AdamW"},
                      {"lr", optimizer.lr},
                      {"beta1", optimizer.betas[0]},
                      {"beta2", optimizer.betas[1]},
                      {"eps", optimizer.eps},
                      {"weight_decay", optimizer.weight_decay}};
}

void write_scheduler(const Facts& facts, Json& out) {
  const config::SchedulerSection& scheduler = facts.plan.scheduler;
  const auto steps = static_cast<double>(facts.plan.train.max_steps);
  Json& to = out["lr_scheduler"];
  to["warmup_steps"] = scheduler.warmup_steps;
  if (scheduler.name == "constant") {
    to["decay_ratio"] = 0.0;
    return;
  }
  if (facts.plan.optimizer.lr > 0) {
    to["min_lr_factor"] = scheduler.min_lr / facts.plan.optimizer.lr;
  }
  if (scheduler.name == "wsd") {
    to["decay_type"] = "linear";
    to["decay_ratio"] =
        steps > 0 ? std::min(1.0, static_cast<double>(scheduler.decay_steps) / steps) : 0.0;
    return;
  }
  to["decay_type"] = scheduler.name;
  if (scheduler.decay_steps > 0) to["total_steps"] = scheduler.decay_steps;
}

void write_rest(const Facts& facts, Json& out) {
  const config::CheckpointSection& checkpoint = facts.plan.checkpoint;
  Json& to = out["checkpoint"];
  to["enable"] = true;
  if (!checkpoint.dir.empty()) to["folder"] = checkpoint.dir;
  to["interval"] = checkpoint.every > 0 ? checkpoint.every
                                        : std::max<int64_t>(1, facts.plan.train.max_steps);
  if (checkpoint.keep != 1) to["keep_latest_k"] = checkpoint.keep;
  to["async_mode"] = checkpoint.async ? "async" : "disabled";
  if (checkpoint.export_format == "hf") to["last_save_in_hf"] = true;
  out["metrics"]["log_freq"] = facts.plan.metrics.every;
  if (facts.plan.metrics.tensorboard) out["metrics"]["enable_tensorboard"] = true;
  out["debug"]["seed"] = facts.plan.model.seed;
}

std::string as_toml(const Json& settings) {
  std::string out = "# torchtitan: a job file. Add [model] name and flavor: its name of the model.\n";
  for (const auto& [section, keys] : settings.items()) {
    out += cat("\n[", section, "]\n");
    for (const auto& [key, value] : keys.items()) {
      const bool nested = value.is_array() && !value.empty() && value.front().is_array();
      if (!nested) {
        out += cat(key, " = ", config::toml_value(value), "\n");
        continue;
      }
      out += cat(key, " = [\n");
      for (const Json& item : value) out += cat("    ", config::toml_value(item), ",\n");
      out += "]\n";
    }
  }
  return out;
}

std::string as_flags(Json settings) {
  const std::string mode = settings["activation_checkpoint"]["mode"];
  const std::string model = settings["model"]["hf_assets_path"];
  for (const char* section : {"activation_checkpoint", "optimizer", "model"}) {
    settings.erase(section);
  }
  settings["parallelism"].erase("module_fqns_per_model_part");
  if (settings["parallelism"]["pipeline_parallel_degree"] != 1) {
    settings["training"]["disable_cuda_graphs"] = true;
  }
  std::vector<std::string> words = {shell_word(cat("--hf_assets_path=", model))};
  for (const auto& [section, keys] : settings.items()) {
    for (const auto& [key, value] : keys.items()) {
      if (value.is_boolean()) {
        words.push_back(cat("--", section, ".", value.get<bool>() ? "" : "no_", key));
      } else {
        const std::string text = value.is_string() ? value.get<std::string>() : dump_json(value, -1);
        words.push_back(shell_word(cat("--", section, ".", key, "=", text)));
      }
    }
  }
  words.push_back(cat("activation_checkpoint:", mode));
  return join(words, " \\\n") + "\n";
}

Exported write(const ExportInput& input) {
  const Facts facts(input);
  Json settings = Json::object();
  write_model(facts, settings);
  write_training(facts, settings);
  write_parallelism(facts, input.flags, settings);
  write_checkpointing(facts, settings);
  write_optimizer(facts, settings);
  write_scheduler(facts, settings);
  write_rest(facts, settings);
  Exported out;
  out.text = input.flags ? as_flags(std::move(settings)) : as_toml(settings);
  out.notes.push_back(input.flags ? "add --module and --config: torchtitan's name of the model"
                                  : "add model.name and model.flavor: torchtitan's name of the "
                                    "model; job files are read up to 0.2, flags (--flags) by 0.3");
  return out;
}

// ---- reading
// -------------------------------------------------------------------------------------

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
  for (const char* key : {"parallelism.enable_async_tensor_parallel",
                          "compile.enable_async_tensor_parallel"}) {
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
    draft.note("torchtitan counts the embedding and the head as a layer each when it deals layers "
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
  } else if (pp > 1) {
    draft.set("train.global_batch_size",
              saturating_product({local, std::max<int64_t>(1, draft.plan().mesh.dp_size)}), kLocal);
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
  const std::string mode = source.text("activation_checkpoint.mode").value_or("selective");
  source.skip("activation_checkpoint.selective_ac_option");
  if (mode == "none") {
    draft.set("strategy.activation_checkpointing", false, "activation_checkpoint.mode");
  } else if (mode == "full" || mode == "selective") {
    const bool ddp = std::holds_alternative<config::DDPConfig>(draft.plan().strategy);
    if (ddp) {
      draft.set("strategy.activation_checkpointing", true, "activation_checkpoint.mode");
    } else {
      draft.set("strategy.activation_checkpointing", mode, "activation_checkpoint.mode");
    }
  } else {
    source.refuse("activation_checkpoint.mode", cat("a plan has no checkpointing \"", mode, "\""),
                  "none, full or selective");
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
  if (saves) draft.set("checkpoint.keep", source.integer("checkpoint.keep_latest_k").value_or(10),
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

// "activation_checkpoint:full" and "--x.no_flag", as 0.3 writes them.
void settle_flags(std::string_view text, config::Value& root) {
  constexpr std::string_view kMode = "activation_checkpoint:";
  const size_t at = text.rfind(kMode);
  if (at != std::string_view::npos) {
    const std::string_view rest = text.substr(at + kMode.size());
    config::Value mode;
    mode.kind = config::Value::Kind::kText;
    mode.text = rest.substr(0, rest.find_first_of(" \t\r\n\\"));
    config::Value section;
    section.members.push_back({"mode", {}, std::move(mode)});
    root.members.push_back({"activation_checkpoint", {}, std::move(section)});
  }
  for (config::Member& section : root.members) {
    for (config::Member& member : section.value.members) {
      if (!starts_with(member.key, "no_")) continue;
      member.key = member.key.substr(3);
      member.value.kind = config::Value::Kind::kBoolean;
      member.value.boolean = false;
    }
  }
}

std::optional<Imported> read(std::string_view text, const std::string& file, Diagnostics& found) {
  const bool flags = has_flags(text);
  auto root = flags ? read_flags(text, file, {.dash = '_', .nested = true}, found)
                    : config::read_toml(text, file, found);
  if (!root.has_value()) return std::nullopt;
  if (flags) settle_flags(text, *root);
  Source source(std::move(*root), file, found);
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

}  // namespace

const Framework kTorchtitan = {.name = "torchtitan",
                               .title = "torchtitan",
                               .format = "TOML, or flags",
                               .has_flags = true,
                               .reasons = kReasons,
                               .write = write,
                               .read = read};

}  // namespace am::planner
