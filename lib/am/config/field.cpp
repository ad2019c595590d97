#include "am/config/field.h"

#include <array>

#include "am/base/error.h"
#include "am/config/field_builder.h"

namespace am::config {
namespace {

constexpr std::array<SectionSpec, 16> kSections = {{
    {"model", "The model that is trained."},
    {"mesh",
     "How many ranks, and how they are arranged. From outer to inner: pp, dp_replicate, "
     "dp_shard, cp, tp."},
    {"strategy",
     "How parameters, gradients and optimizer states are distributed over the data parallel ranks. "
     "The keys depend on the name."},
    {"pipeline", "The pipeline; read when pp_size > 1."},
    {"context", "Context parallelism; read when cp_size > 1."},
    {"experts", "Load balancing of experts; for models with experts."},
    {"lora",
     "Low-rank adapters (LoRA): two narrow matrices for each of the target modules are trained, "
     "and the model's own parameters are not."},
    {"train", "Batch size, sequence length, end of training, loss and numerics."},
    {"optimizer", "The optimizer."},
    {"scheduler", "The learning rate over the steps."},
    {"data", "The training data."},
    {"validation", "Validation: the loss on other data during training."},
    {"checkpoint", "Checkpoints: when they are saved, and from which one training resumes."},
    {"metrics", "Metrics, traces, and where they are written."},
    {"runtime", "How long ranks wait for each other, and how often their states are written."},
    {"cluster", "The machines and the framework that predictions assume."},
}};

}  // namespace

std::span<const SectionSpec> sections() { return kSections; }

std::span<const FieldSpec> fields() {
  static const std::vector<FieldSpec> all = [] {
    std::vector<FieldSpec> out;
    add_model_fields(out);
    add_mesh_fields(out);
    add_strategy_fields(out);
    add_lora_fields(out);
    add_training_fields(out);
    add_data_fields(out);
    add_output_fields(out);
    return out;
  }();
  return all;
}

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"fsdp2", "megatron_fsdp", "ddp", "megatron"};
  return names;
}

DistributedConfig default_strategy(std::string_view name) {
  if (name == "megatron_fsdp") return MegatronFSDPConfig{};
  if (name == "ddp") return DDPConfig{};
  if (name == "megatron") return MegatronConfig{};
  AM_ASSERT(name == "fsdp2", "a strategy without a configuration");
  return FSDP2Config{};
}

namespace {

bool belongs(const FieldSpec& field, std::string_view section, std::string_view strategy) {
  return field.section == section && (field.strategy.empty() || field.strategy == strategy);
}

}  // namespace

const FieldSpec* find_field(std::string_view section, std::string_view key,
                            std::string_view strategy) {
  for (const FieldSpec& field : fields()) {
    if (field.key == key && belongs(field, section, strategy)) return &field;
  }
  return nullptr;
}

std::vector<std::string> section_keys(std::string_view section, std::string_view strategy) {
  std::vector<std::string> keys;
  for (const FieldSpec& field : fields()) {
    if (belongs(field, section, strategy)) keys.push_back(field.key);
  }
  return keys;
}

Plan default_plan(std::string_view strategy) {
  Plan plan;
  plan.strategy = default_strategy(strategy);
  return plan;
}

bool is_chosen(const Plan& plan, std::string_view key) {
  if (!plan.given(key)) return false;
  const size_t dot = key.find('.');
  const std::string strategy = strategy_name(plan.strategy);
  const FieldSpec* field = find_field(key.substr(0, dot), key.substr(dot + 1), strategy);
  return field == nullptr || field->get(plan) != field->get(default_plan(strategy));
}

}  // namespace am::config
