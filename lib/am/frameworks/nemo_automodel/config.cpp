// Export to NeMo AutoModel: writes a recipe (YAML). The import is in config_reader.cpp.
#include "am/frameworks/nemo_automodel/config.h"

#include <array>
#include <utility>
#include <variant>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/config/yaml_writer.h"
#include "am/frameworks/frameworks.h"
#include "am/frameworks/optimizers.h"

namespace am::frameworks {
namespace {

constexpr std::array<Reason, 17> kReasons = {{
    {"strategy.name", "AutoModel does not have Megatron's distributed optimizer"},
    {"model.freeze_params", "a recipe can freeze only whole parts of multimodal models"},
    {"strategy.shard_placement.", "AutoModel shards every parameter on dimension 0"},
    {"strategy.ignored_params", "AutoModel shards every parameter of a text model"},
    {"strategy.tp_plan", "a recipe names a Python object as its TP plan"},
    {"strategy.reshard_after_forward",
     "a recipe has only true or false, not a number of ranks; with experts the value holds for all "
     "layers"},
    {"strategy.activation_checkpointing",
     "this strategy has full activation checkpointing or none"},
    {"strategy.activation_checkpointing_every", "a recipe checkpoints all layers or none"},
    {"strategy.bucket_cap_mb", "AutoModel uses PyTorch's default"},
    {"model.weights", "a recipe loads the weights beside the model's config, or none"},
    {"optimizer.name", "a recipe has one optimizer, and PyTorch's Muon supports only matrices"},
    {"optimizer.no_decay", "a recipe has one parameter group"},
    {"train.seed", "a recipe has one seed, which is set to model.seed"},
    {"metrics.", "AutoModel has its own metrics"},
    {"checkpoint.every", "AutoModel always saves at the end"},
    {"checkpoint.resume", "AutoModel resumes from the newest checkpoint or from a given path"},
    {"checkpoint.export", "AutoModel always saves safetensors"},
}};

constexpr const char* kModelTarget = "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained";
constexpr const char* kPeftTarget = "nemo_automodel.components._peft.lora.PeftConfig";
constexpr const char* kPolicyTarget = "torch.distributed.fsdp.MixedPrecisionPolicy";
constexpr const char* kOffloadTarget = "torch.distributed.fsdp.CPUOffloadPolicy";

Json module_lists(const ExportInput& input) {
  Json lists = Json::array();
  const layout::Layout& layout = input.layout;
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

bool is_default_split(const JobShape& shape) {
  const config::PipelineSection& pipeline = shape.plan.pipeline;
  return pipeline.split_points.empty() && pipeline.balance == "layers" &&
         pipeline.virtual_stages == default_virtual_stages(pipeline.schedule);
}

// Returns the plan with a strategy that AutoModel supports. Replaces the strategy megatron by
// fsdp2, which supports pipelines and sequence parallelism, too.
config::Plan plan_of_automodel(const JobShape& shape) {
  config::Plan plan = shape.plan;
  if (shape.megatron_lm == nullptr) return plan;
  config::FSDP2Config fsdp2;
  fsdp2.sequence_parallel = shape.megatron_lm->sequence_parallel;
  fsdp2.activation_checkpointing = shape.megatron_lm->activation_checkpointing;
  fsdp2.mp_policy.param_dtype = shape.megatron_lm->params_dtype;
  if (!shape.megatron_lm->grad_reduce_in_fp32) {
    fsdp2.mp_policy.reduce_dtype = shape.megatron_lm->params_dtype;
  }
  plan.strategy = std::move(fsdp2);
  return plan;
}

void write_strategy(const config::Plan& plan, const JobShape& shape, Json& distributed) {
  Json keys = config::to_dict(plan.strategy);
  for (const char* ours : {"backend", "bucket_cap_mb"}) keys.erase(ours);
  if (shape.ddp != nullptr) keys["bucket_cap_mb"] = shape.ddp->bucket_cap_mb;
  for (const auto& [key, value] : keys.items()) {
    const config::FieldSpec* field =
        config::find_field("strategy", key, config::strategy_name(plan.strategy));
    if (field == nullptr || key == "name" || key == "tp_plan") continue;
    Json now = field->get(plan);
    const bool list = now.is_array() && now.empty();
    if (now.is_null() || list || key == "mp_policy" || key == "offload_policy") continue;
    if (key == "reshard_after_forward" && !now.is_boolean()) continue;
    if (key == "activation_checkpointing_every") continue;
    if (key == "shard_placement" || key == "ignored_params") continue;
    if (key == "activation_checkpointing" && now == "mlp") now = true;
    distributed[key] = std::move(now);
  }
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  if (fsdp2 == nullptr) return;
  const config::MixedPrecisionPolicy& policy = fsdp2->mp_policy;
  Json& to = distributed["mp_policy"];
  to["_target_"] = kPolicyTarget;
  const auto dtype = [&](const std::optional<std::string>& name) {
    return name.has_value() ? Json(*name) : Json(nullptr);
  };
  to["param_dtype"] = dtype(policy.param_dtype);
  to["reduce_dtype"] = dtype(policy.reduce_dtype);
  to["output_dtype"] = dtype(policy.output_dtype);
  to["cast_forward_inputs"] = policy.cast_forward_inputs;
  if (fsdp2->offload_policy) {
    distributed["offload_policy"] = {{"_target_", kOffloadTarget},
                                     {"pin_memory", fsdp2->offload_policy->pin_memory}};
  }
}

void write_distributed(const ExportInput& input, const JobShape& shape, Json& out) {
  Json& to = out["distributed"];
  const config::Plan plan = plan_of_automodel(shape);
  to["strategy"] = config::strategy_name(plan.strategy);
  to["dp_size"] = shape.mesh.dp();
  if (shape.ddp == nullptr) to["dp_replicate_size"] = shape.mesh.dp_replicate;
  to["tp_size"] = shape.mesh.tp;
  to["pp_size"] = shape.mesh.pp;
  to["cp_size"] = shape.mesh.cp;
  to["ep_size"] = shape.mesh.ep;
  write_strategy(plan, shape, to);
  if (shape.mesh.ep > 1 && std::holds_alternative<config::FSDP2Config>(plan.strategy)) {
    // With expert parallelism, AutoModel keeps all layers gathered by default. The section `moe`
    // therefore states reshard_after_forward explicitly.
    const bool by_default = shape.mesh.pp == 1 || shape.options.reshard_after_forward.has_value();
    to["moe"] = {{"reshard_after_forward", shape.reshards().value_or(by_default)}};
  }
  if (shape.mesh.pp == 1) return;
  Json& pipeline = to["pipeline"];
  pipeline["pp_schedule"] = torch_schedule_name(shape.plan.pipeline.schedule);
  if (const auto file = shape.schedule_file()) pipeline["pp_schedule_csv"] = *file;
  pipeline["pp_microbatch_size"] = shape.plan.train.micro_batch_size;
  pipeline["pp_batch_size"] = shape.local_batch();
  if (!is_default_split(shape)) pipeline["module_fqns_per_model_part"] = module_lists(input);
}

void write_data(const JobShape& shape, Json& out) {
  const config::DataSection& data = shape.plan.data;
  Json& to = out["dataset"];
  const int64_t seq_len = shape.plan.train.seq_len;
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
  write_keys(kNemoAutomodelKeys, "dataloader.", shape, out);
}

void write_scheduler(const JobShape& shape, Json& out) {
  const config::SchedulerSection& scheduler = shape.plan.scheduler;
  Json& to = out["lr_scheduler"];
  to["lr_decay_style"] = scheduler.name == "wsd" ? "WSD" : scheduler.name;
  write_keys(kNemoAutomodelKeys, "lr_scheduler.", shape, out);
  to["init_lr"] = 0.0;
  to["min_lr"] = scheduler.name == "constant" ? shape.plan.optimizer.lr : scheduler.min_lr;
  const int64_t steps = shape.plan.train.max_steps;
  const bool wsd = scheduler.name == "wsd";
  to["lr_decay_steps"] = scheduler.decay_steps > 0 && !wsd ? scheduler.decay_steps : steps;
  if (wsd) {
    to["wsd_decay_steps"] = scheduler.decay_steps;
    to["lr_wsd_decay_style"] = "linear";
  }
}

// Writes the adapters (LoRA). A plan's "all-linear" means all linear modules except the head.
// AutoModel's match_all_linear would adapt the head, and cannot be combined with exclude_modules.
// "all-linear" is therefore written as exclude_modules = [kHeadModule], with which AutoModel adapts
// all other linear modules.
void write_peft(const JobShape& shape, Json& out) {
  const config::LoraSection& lora = shape.plan.lora;
  if (lora.rank == 0) return;
  write_keys(kNemoAutomodelKeys, "peft.", shape, out);
  Json& to = out["peft"];
  to["_target_"] = kPeftTarget;
  if (lora.target_modules == std::vector<std::string>{"all-linear"}) {
    to["exclude_modules"] = Json::array({kHeadModule});
  } else {
    to["target_modules"] = lora.target_modules;
  }
}

Exported write(const ExportInput& input) {
  const JobShape shape(input);
  const config::Plan& plan = shape.plan;
  Json out = Json::object();
  out["recipe"] = "TrainFinetuneRecipeForNextTokenPrediction";
  write_keys(kNemoAutomodelKeys, "seed", shape, out);
  Json& steps = out["step_scheduler"];
  steps["global_batch_size"] = shape.global_batch;
  steps["local_batch_size"] = shape.local_batch();
  write_keys(kNemoAutomodelKeys, "step_scheduler.", shape, out);
  write_keys(kNemoAutomodelKeys, "dist_env.", shape, out);
  write_distributed(input, shape, out);
  out["model"] = {{"_target_", kModelTarget},
                  {"pretrained_model_name_or_path", shape.model},
                  {"torch_dtype", plan.model.dtype}};
  write_peft(shape, out);
  write_data(shape, out);
  out["optimizer"]["_target_"] = cat("torch.optim.", torch_optimizer(plan.optimizer));
  write_keys(kNemoAutomodelKeys, "optimizer.", shape, out);
  if (plan.optimizer.name == "sgd") write_sgd(plan.optimizer, out["optimizer"]);
  write_scheduler(shape, out);
  write_keys(kNemoAutomodelKeys, "clip_grad_norm.", shape, out);
  out["checkpoint"]["enabled"] = true;
  write_keys(kNemoAutomodelKeys, "checkpoint.", shape, out);
  Exported exported;
  exported.text = config::write_yaml(out);
  if (plan.data.kind != "tokens" && plan.data.kind != "megatron") {
    exported.notes.push_back("the dataset is AutoModel's mock dataset: replace it with yours");
  }
  return exported;
}

}  // namespace

const Framework kNemoAutomodel = {.name = "nemo-automodel",
                                  .title = "NeMo AutoModel",
                                  .format = "YAML",
                                  .reasons = kReasons,
                                  .write = write,
                                  .read = read_nemo_automodel};

}  // namespace am::frameworks
