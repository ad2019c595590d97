// Export to and import from Hugging Face accelerate: the YAML file that `accelerate config` writes.
// The file contains the layout; batches, optimizer and model are set in the user's training script.
#include <array>

#include "am/base/text.h"
#include "am/config/yaml_reader.h"
#include "am/config/yaml_writer.h"
#include "am/frameworks/frameworks.h"
#include "am/frameworks/job_shape.h"
#include "am/frameworks/plan_builder.h"
#include "am/layout/precision.h"

namespace am::frameworks {
namespace {

constexpr std::array<Reason, 20> kReasons = {{
    {"strategy.shard_placement.", "accelerate shards every parameter on dimension 0"},
    {"strategy.ignored_params",
     "accelerate can exclude modules from FSDP, but not single parameters"},
    {"mesh.pp_size", "accelerate has no pipeline"},
    {"mesh.ep_size", "accelerate has no expert parallelism"},
    {"mesh.dp_size", "the ranks of axes that cannot be exported become data parallel"},
    {"mesh.tp_size", "only FSDP2 has a parallelism_config"},
    {"mesh.cp_size", "only FSDP2 has a parallelism_config"},
    {"mesh.dp_replicate_size", "only FSDP2 has a parallelism_config"},
    {"pipeline.", "accelerate has no pipeline"},
    {"strategy.name",
     "exported as FSDP2, which shards like Megatron's stage 3; an import reads it as fsdp2"},
    {"strategy.tp_plan", "accelerate uses the TP plans of transformers"},
    {"strategy.sequence_parallel", "the TP plans of transformers decide whether it is used"},
    {"strategy.mp_policy.",
     "mixed_precision sets one dtype for parameters, reductions and outputs"},
    {"strategy.activation_checkpointing",
     "accelerate has only full activation checkpointing, and only under FSDP"},
    {"strategy.activation_checkpointing_every", "accelerate checkpoints all layers or none"},
    {"strategy.offload_policy.pin_memory", "accelerate always pins the memory"},
    {"train.", "the training script sets it"},
    {"optimizer.", "the training script sets it"},
    {"scheduler.", "the training script sets it"},
    {"model.", "the training script loads the model"},
}};

// Returns the dtype for accelerate's mixed_precision. Under FSDP, this is the compute dtype. Under
// DDP, this is the autocast dtype, or "no" without autocast; the training script determines the
// dtype of the weights.
std::string mixed_precision(const JobShape& shape) {
  const layout::StepPrecision precision = layout::resolve_precision(shape.plan);
  if (shape.ddp == nullptr) return precision.compute;
  return precision.products == precision.compute ? "no" : precision.products;
}

Exported write(const ExportInput& input) {
  const JobShape shape(input);
  Json out = Json::object();
  out["compute_environment"] = "LOCAL_MACHINE";
  out["distributed_type"] = shape.ddp != nullptr ? "MULTI_GPU" : "FSDP";
  out["num_processes"] = shape.world();
  out["num_machines"] = shape.nodes();
  out["machine_rank"] = 0;
  const std::string mixed = mixed_precision(shape);
  out["mixed_precision"] = mixed == "bfloat16" ? "bf16" : mixed == "float16" ? "fp16" : "no";
  out["rdzv_backend"] = shape.nodes() > 1 ? "c10d" : "static";
  out["same_network"] = true;
  out["main_training_function"] = "main";
  out["use_cpu"] = false;
  if (shape.ddp == nullptr) {
    out["fsdp_config"] = {{"fsdp_version", 2},
                          {"fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
                          {"fsdp_reshard_after_forward", shape.reshards().value_or(true)},
                          {"fsdp_offload_params", shape.options.offload_policy.has_value()},
                          {"fsdp_activation_checkpointing", shape.checkpoints()},
                          {"fsdp_cpu_ram_efficient_loading", true},
                          {"fsdp_state_dict_type", "SHARDED_STATE_DICT"}};
    out["parallelism_config"] = {
        {"parallelism_config_dp_replicate_size", shape.mesh.dp_replicate},
        {"parallelism_config_dp_shard_size", shape.mesh.dp_shard * shape.mesh.pp},
        {"parallelism_config_tp_size", shape.mesh.tp},
        {"parallelism_config_cp_size", shape.mesh.cp}};
  }
  if (shape.options.enable_compile) out["dynamo_config"] = {{"dynamo_backend", "INDUCTOR"}};
  Exported exported;
  exported.text = config::write_yaml(out);
  const int64_t accumulation =
      shape.global_batch / (shape.plan.train.micro_batch_size * shape.mesh.dp());
  exported.notes.push_back(cat("set in the training script: a batch size of ",
                               shape.plan.train.micro_batch_size, ", ", accumulation,
                               " gradient accumulation steps, seq_len, optimizer and scheduler"));
  return exported;
}

// Returns the value of distributed_type. If the value is missing or has no equivalent in a plan,
// reports an error and returns an empty text.
std::string distributed_type(Source& source) {
  const auto type = source.text("distributed_type");
  if (!type.has_value()) {
    source.refuse("distributed_type", "distributed_type is missing",
                  "legal values: FSDP, DEEPSPEED, MULTI_GPU, MULTI_CPU or NO");
    return "";
  }
  if (*type == "FSDP" || *type == "MULTI_GPU" || *type == "MULTI_CPU" || *type == "NO") {
    return *type;
  }
  if (*type == "DEEPSPEED" && source.has("deepspeed_config.zero_stage")) return *type;
  source.refuse("distributed_type", cat("a plan cannot express distributed_type ", *type),
                *type == "DEEPSPEED"
                    ? "import the file of deepspeed_config_file with --from deepspeed"
                    : "legal values: FSDP, DEEPSPEED, MULTI_GPU, MULTI_CPU or NO");
  return "";
}

// Returns the plan's strategy for a distributed_type. For DEEPSPEED, the strategy depends on the
// ZeRO stage in the section deepspeed_config and, for stage 0, on mixed_precision.
std::string_view strategy_of(Source& source, const std::string& type) {
  if (type == "FSDP") return "fsdp2";
  if (type != "DEEPSPEED") return "ddp";
  constexpr const char* kStage = "deepspeed_config.zero_stage";
  const int64_t stage = source.integer(kStage, 0).value_or(0);
  if (stage > 3)
    source.refuse(kStage, cat("zero_stage = ", stage, " is not a stage of ZeRO"),
                  "legal values: 0 to 3");
  // DeepSpeed keeps a float32 copy of 16-bit weights; the strategy ddp keeps no copy. ZeRO stage 0
  // with 16-bit weights is therefore imported as megatron_fsdp with zero_dp_strategy = 0.
  const config::Value* mixed = source.find("mixed_precision");
  const bool narrow = mixed != nullptr && (mixed->text == "bf16" || mixed->text == "fp16");
  return stage >= 3 ? "fsdp2" : stage == 0 && !narrow ? "ddp" : "megatron_fsdp";
}

void read_deepspeed(PlanBuilder& builder) {
  Source& source = builder.source();
  const auto path = [](const char* key) { return cat("deepspeed_config.", key); };
  if (builder.knows("strategy.zero_dp_strategy")) {
    builder.copy(path("zero_stage"), "strategy.zero_dp_strategy");
  }
  builder.copy(path("gradient_clipping"), "train.max_grad_norm");
  const std::string offload = path("offload_param_device");
  if (builder.knows("strategy.offload_policy") && source.find(offload) != nullptr &&
      source.find(offload)->text == "cpu") {
    source.skip(offload);
    source.skip(path("offload_optimizer_device"));
    builder.set_offload(true, offload);
  }
  for (const char* key :
       {"zero3_init_flag", "zero3_save_16bit_model", "deepspeed_multinode_launcher"}) {
    source.skip(path(key));
  }
}

void read_precision(PlanBuilder& builder) {
  Source& source = builder.source();
  std::string mixed = "no";
  const config::Value* value = source.find("mixed_precision");
  if (value != nullptr && value->kind == config::Value::Kind::kBoolean) {
    source.skip("mixed_precision");  // YAML reads `no` without quotes as a boolean
  } else {
    mixed = source.text("mixed_precision").value_or("no");
  }
  if (mixed != "no" && mixed != "bf16" && mixed != "fp16") {
    source.refuse("mixed_precision", cat("a plan cannot express mixed_precision ", mixed),
                  "legal values: no, bf16 or fp16");
    return;
  }
  const std::string dtype = mixed == "bf16" ? "bfloat16" : mixed == "fp16" ? "float16" : "float32";
  if (builder.knows("strategy.mp_policy")) {
    builder.set_mp_policy(dtype, dtype, dtype, "mixed_precision");
  } else if (mixed == "no") {
    return;
  } else if (builder.knows("strategy.zero_dp_strategy")) {
    // DeepSpeed computes with weights of this dtype and keeps a float32 copy of them.
    builder.set("model.dtype", dtype, "mixed_precision");
    builder.set("strategy.preserve_fp32_weights", true, "mixed_precision");
  } else {
    builder.set("strategy.autocast_dtype", dtype, "mixed_precision");
  }
}

// Sharding strategies of FSDP1. With kKeeps and kHybridKeeps, parameters stay gathered after
// forward. In files for FSDP1, fsdp_sharding_strategy contains the strategy's name, or its number
// from 1 to 5. In files for FSDP2, fsdp_reshard_after_forward contains a boolean or, with some
// versions of accelerate, the name of a strategy.
enum class Sharding { kFull, kKeeps, kNone, kHybrid, kHybridKeeps };
Sharding sharding_of(Source& source) {
  constexpr std::array<std::string_view, 5> kWords = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                                      "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
  for (const char* key :
       {"fsdp_config.fsdp_reshard_after_forward", "fsdp_config.fsdp_sharding_strategy"}) {
    const config::Value* value = source.take(key);
    if (value == nullptr) continue;
    if (value->kind == config::Value::Kind::kBoolean) {
      return value->boolean ? Sharding::kFull : Sharding::kKeeps;
    }
    const std::string word = source.text(key).value_or("");
    if (word == "true" || word == "false") {
      return word == "true" ? Sharding::kFull : Sharding::kKeeps;
    }
    for (size_t i = 0; i < kWords.size(); ++i) {
      if (word == kWords[i] || word == cat(i + 1)) return static_cast<Sharding>(i);
    }
    source.refuse(
        key, cat("unknown sharding \"", word, "\""),
        "legal values: FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or HYBRID_SHARD_ZERO2");
  }
  return Sharding::kFull;
}

void read_fsdp(PlanBuilder& builder, Sharding sharding) {
  Source& source = builder.source();
  if (sharding == Sharding::kKeeps || sharding == Sharding::kHybridKeeps) {
    builder.set("strategy.reshard_after_forward", false, "fsdp_config");
  }
  constexpr const char* kWrap = "fsdp_config.fsdp_auto_wrap_policy";
  if (source.text(kWrap).value_or("TRANSFORMER_BASED_WRAP") != "TRANSFORMER_BASED_WRAP") {
    builder.lose(
        kWrap, "the units that are gathered and freed together, which are whole layers in a plan");
  }
  if (source.integer("fsdp_config.fsdp_version").value_or(1) == 1) {
    builder.note(
        "the file is for FSDP1; the plan uses fsdp2, which shards each parameter separately");
  }
  if (source.boolean("fsdp_config.fsdp_offload_params").value_or(false)) {
    builder.set_offload(true, "fsdp_config.fsdp_offload_params");
  }
  if (source.boolean("fsdp_config.fsdp_activation_checkpointing").value_or(false)) {
    builder.set("strategy.activation_checkpointing", true,
                "fsdp_config.fsdp_activation_checkpointing");
  }
  for (const char* key : {"fsdp_cpu_ram_efficient_loading", "fsdp_state_dict_type"}) {
    source.skip(cat("fsdp_config.", key));
  }
}

void read_mesh(PlanBuilder& builder, bool fsdp, Sharding sharding) {
  Source& source = builder.source();
  constexpr const char* kWorld = "num_processes";
  int64_t world = source.has(kWorld) ? source.size(kWorld, 1) : 1;
  const int64_t nodes = source.size("num_machines", 1);
  const std::string prefix = "parallelism_config.parallelism_config_";
  const auto size = [&](const char* name) { return source.size(prefix + name, 1); };
  const int64_t tp = fsdp ? size("tp_size") : 1;
  const int64_t cp = fsdp ? size("cp_size") : 1;
  int64_t replicas = fsdp ? size("dp_replicate_size") : 1;
  if (sharding == Sharding::kNone) replicas = std::max<int64_t>(1, world / (tp * cp));
  // FSDP1's hybrid strategies shard within a node and replicate across nodes.
  if (sharding == Sharding::kHybrid || sharding == Sharding::kHybridKeeps) replicas = nodes;
  const int64_t model = saturating_product({tp, cp, replicas});
  int64_t shards = world / model;
  if (fsdp && source.has(prefix + "dp_shard_size")) shards = size("dp_shard_size");
  if (!source.has(kWorld)) {  // the product of the sizes is the number of ranks
    shards = std::max<int64_t>(1, shards);
    world = saturating_product({model, shards});
  }
  if (shards < 1 || saturating_product({model, shards}) != world) {
    source.refuse(kWorld,
                  cat(kWorld, " = ", world, ", but the product of the mesh sizes in the file is ",
                      saturating_product({model, std::max<int64_t>(1, shards)})),
                  "choose sizes whose product is num_processes");
    return;
  }
  builder.set_mesh({.dp_replicate = {replicas, prefix + "dp_replicate_size"},
                    .dp_shard = {shards, kWorld},
                    .tp = {tp, prefix + "tp_size"},
                    .cp = {cp, prefix + "cp_size"}});
  if (nodes > 1 && world % nodes == 0) {
    builder.set("mesh.ranks_per_node", world / nodes, "num_machines");
  }
}

std::optional<Imported> read(const ImportInput& input) {
  auto root = config::read_yaml(input.text, input.file, input.found);
  if (!root.has_value()) return std::nullopt;
  Source source(std::move(*root), input.file, input.found);
  if (!source.has_any({"distributed_type", "num_processes", "num_machines", "compute_environment",
                       "machine_rank"})) {
    const bool recipe = source.has_any({"base_model", "model_name_or_path"});
    constexpr const char* kTrainer =
        "this is a training recipe; import the file that `accelerate config` writes, or the "
        "DeepSpeed JSON that the recipe names (--from deepspeed)";
    if (recipe) {
      source.refuse_framework("accelerate", "distributed_type, num_processes or similar keys",
                              kTrainer);
    } else {
      source.refuse_framework("accelerate", "distributed_type, num_processes or similar keys");
    }
    return std::nullopt;
  }
  const std::string type = distributed_type(source);
  if (type.empty()) return std::nullopt;
  const bool fsdp = type == "FSDP";
  PlanBuilder builder(source, strategy_of(source, type), input.model);
  const Sharding sharding = fsdp ? sharding_of(source) : Sharding::kFull;
  read_mesh(builder, fsdp, sharding);
  read_precision(builder);
  if (fsdp) read_fsdp(builder, sharding);
  builder.name_model("fsdp_config.fsdp_transformer_layer_cls_to_wrap");
  if (type == "DEEPSPEED") read_deepspeed(builder);
  if (source.boolean("use_cpu").value_or(false)) builder.set("strategy.backend", "gloo", "use_cpu");
  const std::string compiler = source.text("dynamo_config.dynamo_backend").value_or("NO");
  if (compiler != "NO" && builder.knows("strategy.enable_compile")) {
    builder.set("strategy.enable_compile", true, "dynamo_config.dynamo_backend");
  }
  for (const char* key : {"compute_environment", "machine_rank", "rdzv_backend", "same_network",
                          "main_training_function"}) {
    source.skip(key);
  }
  builder.note(
      "the training script sets batches, optimizer and model: the plan has default values for "
      "them");
  return builder.done(source.ignored("a plan has no key for it"));
}

}  // namespace

const Framework kAccelerate = {.name = "accelerate",
                               .title = "accelerate",
                               .format = "YAML",
                               .reasons = kReasons,
                               .write = write,
                               .read = read};

}  // namespace am::frameworks
