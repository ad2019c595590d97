// Export to torchtitan: writes a TOML job file (for versions up to 0.2) or command-line flags (for
// 0.3). The import is in config_reader.cpp.
#include "am/frameworks/torchtitan/config.h"

#include <array>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/write.h"
#include "am/frameworks/frameworks.h"
#include "am/frameworks/words.h"
#include "am/layout/precision.h"

namespace am::frameworks {
namespace {

constexpr std::array<Reason, 20> kReasons = {{
    {"model.freeze_params", "torchtitan trains every parameter"},
    {"strategy.shard_placement.", "torchtitan's models choose their own placements"},
    {"strategy.ignored_params", "torchtitan shards every parameter"},
    {"strategy.name", "an import reads every torchtitan strategy as fsdp2"},
    {"mesh.dp_replicate_size", "an import reads ddp ranks as replicas of fsdp2"},
    {"strategy.autocast_dtype",
     "torchtitan up to 0.2 runs replicas without shards as DDP under autocast"},
    {"strategy.tp_plan", "torchtitan's models have their own TP plans"},
    {"strategy.sequence_parallel", "in a job file, tensor parallelism always includes it"},
    {"strategy.activation_checkpointing",
     "torchtitan checkpoints whole layers or selected operators"},
    {"strategy.activation_checkpointing_every", "torchtitan supports it only for whole layers"},
    {"strategy.reshard_after_forward",
     "with a pipeline torchtitan keeps parameters gathered by default, so \"always\" is exported"},
    {"strategy.mp_policy.reduce_dtype", "torchtitan reduces gradients in float32"},
    {"strategy.mp_policy.", "torchtitan sets only the parameters' dtype, bfloat16 or float32"},
    {"pipeline.split_points",
     "a list of lists cannot be written as a flag: set it in the model's configuration"},
    {"optimizer.name",
     "torchtitan supports only AdamW and Adam, and version 0.3 selects them in Python"},
    {"optimizer.no_decay", "torchtitan applies weight decay to every parameter"},
    {"optimizer.", "torchtitan 0.3 configures the optimizer in Python, not by flags"},
    {"scheduler.", "torchtitan's learning-rate schedule has other parameters"},
    {"train.seed", "torchtitan has one seed, which is set to model.seed"},
    {"checkpoint.keep", "torchtitan keeps all checkpoints (0) or at least two"},
}};

void write_model(const JobShape& shape, Json& out) { out["model"]["hf_assets_path"] = shape.model; }

void write_training(const JobShape& shape, Json& out) {
  const config::Plan& plan = shape.plan;
  Json& training = out["training"];
  training["local_batch_size"] = shape.local_batch();
  training["global_batch_size"] = shape.global_batch;
  write_keys(kTorchtitanKeys, "training.", shape, out);
  if (plan.model.dtype != "float16") training["dtype"] = plan.model.dtype;
  const std::string param = layout::resolve_precision(plan).compute;
  if (param != "float16") training["mixed_precision_param"] = param;
  training["mixed_precision_reduce"] = "float32";
  if (shape.options.offload_policy) training["enable_cpu_offload"] = true;
}

const char* reshard_policy(const JobShape& shape) {
  if (const auto reshards = shape.reshards()) return *reshards ? "always" : "never";
  return shape.mesh.pp > 1 ? "always" : "default";
}

Json module_lists(const JobShape& shape) {
  Json lists = Json::array();
  for (size_t i = 0; i < shape.stages.size(); ++i) {
    Json names = Json::array();
    if (i == 0) names.push_back("tok_embeddings");
    for (int64_t layer = shape.stages[i].first; layer < shape.stages[i].second; ++layer) {
      names.push_back(cat("layers.", layer));
    }
    if (i + 1 == shape.stages.size()) {
      names.push_back("norm");
      names.push_back("output");
    }
    lists.push_back(std::move(names));
  }
  return lists;
}

void write_parallelism(const JobShape& shape, bool flags, Json& out) {
  Json& parallelism = out["parallelism"];
  parallelism["data_parallel_replicate_degree"] = shape.mesh.dp_replicate;
  parallelism["data_parallel_shard_degree"] = shape.mesh.dp_shard;
  parallelism["fsdp_reshard_after_forward"] = reshard_policy(shape);
  parallelism["tensor_parallel_degree"] = shape.mesh.tp;
  if (flags && shape.mesh.tp > 1) {
    parallelism["enable_sequence_parallel"] = shape.options.sequence_parallel;
  }
  if (shape.options.enable_async_tensor_parallel) {
    out[flags ? "compile" : "parallelism"]["enable_async_tensor_parallel"] = true;
  }
  parallelism["context_parallel_degree"] = shape.mesh.cp;
  parallelism["expert_parallel_degree"] = shape.mesh.ep;
  parallelism["pipeline_parallel_degree"] = shape.mesh.pp;
  if (shape.mesh.pp > 1) {
    parallelism["pipeline_parallel_schedule"] = torch_schedule_name(shape.plan.pipeline.schedule);
    if (const auto file = shape.schedule_file()) {
      parallelism["pipeline_parallel_schedule_csv"] = *file;
    }
    parallelism["pipeline_parallel_microbatch_size"] = shape.plan.train.micro_batch_size;
    parallelism["module_fqns_per_model_part"] = module_lists(shape);
  }
  write_keys(kTorchtitanKeys, "compile.", shape, out);
}

void write_checkpointing(const JobShape& shape, Json& out) {
  Json& to = out["activation_checkpoint"];
  if (!shape.checkpoints()) {
    to["mode"] = "none";
    return;
  }
  const bool selective = shape.checkpoints_selectively();
  // In torchtitan's mode "selective", selective_ac_option = "op" keeps the outputs of some
  // operators. If selective_ac_option is a number n instead, every n-th layer is checkpointed.
  const int64_t every = shape.options.activation_checkpointing_every;
  to["mode"] = selective || every > 1 ? "selective" : "full";
  if (selective) {
    to["selective_ac_option"] = "op";
  } else if (every > 1) {
    to["selective_ac_option"] = cat(every);
  }
}

void write_optimizer(const JobShape& shape, Json& out) {
  Json& to = out["optimizer"];
  to["name"] = shape.plan.optimizer.name == "adam" ? "Adam" : "AdamW";
  write_keys(kTorchtitanKeys, "optimizer.lr", shape, out);
  to["beta1"] = shape.plan.optimizer.betas[0];
  to["beta2"] = shape.plan.optimizer.betas[1];
  write_keys(kTorchtitanKeys, "optimizer.eps", shape, out);
  write_keys(kTorchtitanKeys, "optimizer.weight_decay", shape, out);
}

void write_scheduler(const JobShape& shape, Json& out) {
  const config::SchedulerSection& scheduler = shape.plan.scheduler;
  const auto steps = static_cast<double>(shape.plan.train.max_steps);
  Json& to = out["lr_scheduler"];
  write_keys(kTorchtitanKeys, "lr_scheduler.", shape, out);
  if (scheduler.name == "constant") {
    to["decay_ratio"] = 0.0;
    return;
  }
  if (shape.plan.optimizer.lr > 0) {
    to["min_lr_factor"] = scheduler.min_lr / shape.plan.optimizer.lr;
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

void write_rest(const JobShape& shape, Json& out) {
  const config::CheckpointSection& checkpoint = shape.plan.checkpoint;
  Json& to = out["checkpoint"];
  to["enable"] = true;
  write_keys(kTorchtitanKeys, "checkpoint.", shape, out);
  to["interval"] =
      checkpoint.every > 0 ? checkpoint.every : std::max<int64_t>(1, shape.plan.train.max_steps);
  if (checkpoint.keep != 1) to["keep_latest_k"] = checkpoint.keep;
  to["async_mode"] = checkpoint.async ? "async" : "disabled";
  if (checkpoint.export_format == "hf") to["last_save_in_hf"] = true;
  write_keys(kTorchtitanKeys, "metrics.", shape, out);
  out["debug"]["seed"] = shape.plan.model.seed;
}

// Returns the value of the flag pipeline_parallel_layers_per_stage; 0 if the flag is omitted. The
// flag is omitted if each rank has the schedule's default number of stages, or if the number of
// stages does not divide the number of layers.
int64_t layers_per_stage(const JobShape& shape, const model::ModelConfig& model) {
  const auto stages = static_cast<int64_t>(shape.stages.size());
  const config::PipelineSection& pipeline = shape.plan.pipeline;
  const bool by_default = pipeline.virtual_stages == default_virtual_stages(pipeline.schedule);
  return by_default || model.num_hidden_layers % stages != 0 ? 0 : model.num_hidden_layers / stages;
}

std::string as_toml(const Json& settings) {
  std::string out =
      "# A job file of torchtitan. Add the name and flavor of the model to [model].\n";
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

std::string as_flags(Json settings, int64_t layers_per_stage) {
  const std::string mode = settings["activation_checkpoint"]["mode"];
  const std::string model = settings["model"]["hf_assets_path"];
  for (const char* section : {"activation_checkpoint", "optimizer", "model"}) {
    settings.erase(section);
  }
  Json& parallelism = settings["parallelism"];
  // Flags cannot express lists of modules. Without these lists, torchtitan divides the layers over
  // the stages. If both settings *_stage_less_layers are 0, torchtitan's stages equal those of a
  // plan without split_points.
  if (parallelism.erase("module_fqns_per_model_part") > 0) {
    parallelism["pipeline_parallel_first_stage_less_layers"] = 0;
    parallelism["pipeline_parallel_last_stage_less_layers"] = 0;
    if (layers_per_stage > 0) parallelism["pipeline_parallel_layers_per_stage"] = layers_per_stage;
  }
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
  const JobShape shape(input);
  Json settings = Json::object();
  write_model(shape, settings);
  write_training(shape, settings);
  write_parallelism(shape, input.flags, settings);
  write_checkpointing(shape, settings);
  write_optimizer(shape, settings);
  write_scheduler(shape, settings);
  write_rest(shape, settings);
  Exported out;
  out.text = input.flags ? as_flags(std::move(settings), layers_per_stage(shape, input.model))
                         : as_toml(settings);
  if (input.flags) {
    const config::OptimizerSection& optimizer = shape.plan.optimizer;
    out.notes.emplace_back("add --module and --config, which name the model in torchtitan");
    out.notes.push_back(
        cat("torchtitan 0.3 configures the optimizer in Python: give the optimizer "
            "lr ",
            format_general(optimizer.lr, 12), ", betas ", format_general(optimizer.betas[0], 12),
            " and ", format_general(optimizer.betas[1], 12), ", eps ",
            format_general(optimizer.eps, 12), ", weight decay ",
            format_general(optimizer.weight_decay, 12)));
  } else {
    out.notes.emplace_back(
        "add model.name and model.flavor, which name the model; torchtitan up to 0.2 reads job "
        "files; for 0.3, which reads flags, export with --flags");
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

}  // namespace am::frameworks
