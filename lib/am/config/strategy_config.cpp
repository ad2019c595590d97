#include "am/config/strategy_config.h"

#include "am/config/field.h"

namespace am::config {
namespace {

struct Name {
  const char* operator()(const FSDP2Config&) const { return "fsdp2"; }
  const char* operator()(const MegatronFSDPConfig&) const { return "megatron_fsdp"; }
  const char* operator()(const DDPConfig&) const { return "ddp"; }
  const char* operator()(const MegatronConfig&) const { return "megatron"; }
};

}  // namespace

bool defers_gradient_sync(const DistributedConfig& config) {
  if (const auto* fsdp2 = std::get_if<FSDP2Config>(&config)) return fsdp2->defer_fsdp_grad_sync;
  if (const auto* megatron = std::get_if<MegatronConfig>(&config)) return megatron->zero <= 1;
  const auto* fsdp = std::get_if<MegatronFSDPConfig>(&config);
  return fsdp == nullptr || fsdp->zero_dp_strategy <= 1;
}

ActivationCheckpointing checkpointing_of(const DistributedConfig& config) {
  if (const auto* fsdp = std::get_if<MegatronFSDPConfig>(&config)) {
    return fsdp->activation_checkpointing ? ActivationCheckpointing::kFull
                                          : ActivationCheckpointing::kOff;
  }
  if (const auto* megatron = std::get_if<MegatronConfig>(&config)) {
    return megatron->activation_checkpointing;
  }
  const auto* fsdp2 = std::get_if<FSDP2Config>(&config);
  return fsdp2 != nullptr ? fsdp2->activation_checkpointing
                          : std::get<DDPConfig>(config).activation_checkpointing;
}

void set_checkpointing(ActivationCheckpointing mode, DistributedConfig& config) {
  if (auto* fsdp2 = std::get_if<FSDP2Config>(&config)) {
    fsdp2->activation_checkpointing = mode;
  } else if (auto* fsdp = std::get_if<MegatronFSDPConfig>(&config)) {
    fsdp->activation_checkpointing = mode != ActivationCheckpointing::kOff;
  } else if (auto* megatron = std::get_if<MegatronConfig>(&config)) {
    const bool mlp = mode == ActivationCheckpointing::kMlp;
    megatron->activation_checkpointing = mlp ? ActivationCheckpointing::kSelective : mode;
    if (mlp) megatron->recompute_modules = {"mlp"};
  } else {
    std::get<DDPConfig>(config).activation_checkpointing = mode;
  }
}

int64_t checkpointing_every(const DistributedConfig& config) {
  const auto* fsdp2 = std::get_if<FSDP2Config>(&config);
  return fsdp2 != nullptr ? fsdp2->activation_checkpointing_every : 1;
}

Fp8Recipe fp8_of(const DistributedConfig& config) {
  return std::visit([](const auto& one) { return one.fp8; }, config);
}

bool uses_transformer_engine(const DistributedConfig& config) {
  const Fp8Recipe recipe = fp8_of(config);
  if (recipe == Fp8Recipe::kNone) return false;
  return spec_of(recipe).transformer_engine || std::holds_alternative<MegatronConfig>(config);
}

bool sequence_parallel(const DistributedConfig& config) {
  if (const auto* fsdp2 = std::get_if<FSDP2Config>(&config)) return fsdp2->sequence_parallel;
  const auto* megatron = std::get_if<MegatronConfig>(&config);
  return megatron != nullptr && megatron->sequence_parallel;
}

const char* default_implementation(const DistributedConfig& config) {
  return std::holds_alternative<MegatronConfig>(config) ? "megatron" : "automesh";
}

const char* strategy_name(const DistributedConfig& config) { return std::visit(Name{}, config); }

Json to_dict(const DistributedConfig& config) {
  Plan plan;
  plan.strategy = config;
  const std::string_view name = strategy_name(config);
  Json out = Json::object();
  for (const FieldSpec& field : fields()) {
    if (field.strategy == name) out[field.key] = field.get(plan);
  }
  return out;
}

}  // namespace am::config
