// torchtitan: its TOML job files (up to 0.2), and the flags of its command line (0.3). Reading is
// torchtitan_reader.cpp.
#include "am/planner/exchange/torchtitan.h"

#include <array>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/write.h"
#include "am/planner/exchange/facts.h"
#include "am/planner/exchange/frameworks.h"
#include "am/planner/exchange/words.h"

namespace am::planner {
namespace {

constexpr std::array<Reason, 16> kReasons = {{
    {"model.freeze_params", "torchtitan trains every parameter"},
    {"strategy.shard_placement.", "torchtitan's models place their own"},
    {"strategy.ignored_params", "torchtitan shards every parameter"},
    {"strategy.name", "FSDP2 shards as Megatron's stage 3 does: it is read back as fsdp2"},
    {"strategy.tp_plan", "torchtitan's models bring their own TP plans"},
    {"strategy.sequence_parallel", "a job file always has it with tensor parallelism"},
    {"strategy.activation_checkpointing", "torchtitan has whole layers, or operators"},
    {"strategy.activation_checkpointing_every", "with whole layers only"},
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

void write_model(const Facts& facts, Json& out) { out["model"]["hf_assets_path"] = facts.model; }

void write_training(const Facts& facts, Json& out) {
  const config::Plan& plan = facts.plan;
  Json& training = out["training"];
  training["local_batch_size"] = facts.local_batch();
  training["global_batch_size"] = facts.global_batch;
  training["seq_len"] = plan.train.seq_len;
  training["steps"] = plan.train.max_steps;
  training["max_norm"] = plan.train.max_grad_norm > 0 ? plan.train.max_grad_norm : kNoClipping;
  if (plan.model.dtype != "float16") training["dtype"] = plan.model.dtype;
  const std::string param = facts.fsdp2 != nullptr && facts.fsdp2->mp_policy.param_dtype.has_value()
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
  Json& to = out["activation_checkpoint"];
  const bool selective = facts.fsdp2 != nullptr && facts.fsdp2->activation_checkpointing ==
                                                       config::ActivationCheckpointing::kSelective;
  // Its selective mode is by operator, or every n-th layer whole.
  const int64_t every = facts.fsdp2 != nullptr ? facts.fsdp2->activation_checkpointing_every : 1;
  to["mode"] = selective || every > 1 ? "selective" : "full";
  if (selective) {
    to["selective_ac_option"] = "op";
  } else if (every > 1) {
    to["selective_ac_option"] = cat(every);
  }
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
  to["interval"] =
      checkpoint.every > 0 ? checkpoint.every : std::max<int64_t>(1, facts.plan.train.max_steps);
  if (checkpoint.keep != 1) to["keep_latest_k"] = checkpoint.keep;
  to["async_mode"] = checkpoint.async ? "async" : "disabled";
  if (checkpoint.export_format == "hf") to["last_save_in_hf"] = true;
  out["metrics"]["log_freq"] = facts.plan.metrics.every;
  if (facts.plan.metrics.tensorboard) out["metrics"]["enable_tensorboard"] = true;
  out["debug"]["seed"] = facts.plan.model.seed;
}

std::string as_toml(const Json& settings) {
  std::string out =
      "# torchtitan: a job file. Add [model] name and flavor: its name of the model.\n";
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
        const std::string text =
            value.is_string() ? value.get<std::string>() : dump_json(value, -1);
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
  if (input.flags) {
    const config::OptimizerSection& optimizer = facts.plan.optimizer;
    out.notes.emplace_back("add --module and --config: torchtitan's name of the model");
    out.notes.push_back(cat(
        "0.3 configures the optimizer in Python: AdamW with lr ", format_general(optimizer.lr, 12),
        ", betas ", format_general(optimizer.betas[0], 12), " and ",
        format_general(optimizer.betas[1], 12), ", eps ", format_general(optimizer.eps, 12),
        ", weight decay ", format_general(optimizer.weight_decay, 12)));
  } else {
    out.notes.emplace_back(
        "add model.name and model.flavor: torchtitan's name of the model; job files are read up to "
        "0.2, flags (--flags) by 0.3");
  }
  return out;
}

}  // namespace

const Framework kTorchtitan = {.name = "torchtitan",
                               .title = "torchtitan",
                               .format = "TOML, or flags",
                               .has_flags = true,
                               .reasons = kReasons,
                               .write = write,
                               .read = read_torchtitan};

}  // namespace am::planner
