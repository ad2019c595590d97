#include "am/config/strategy_config.h"

#include "am/config/field.h"

namespace am::config {
namespace {

struct Name {
  const char* operator()(const FSDP2Config&) const { return "fsdp2"; }
  const char* operator()(const MegatronFSDPConfig&) const { return "megatron_fsdp"; }
  const char* operator()(const DDPConfig&) const { return "ddp"; }
};

}  // namespace

bool defers_gradient_sync(const DistributedConfig& config) {
  if (const auto* fsdp2 = std::get_if<FSDP2Config>(&config)) return fsdp2->defer_fsdp_grad_sync;
  const auto* megatron = std::get_if<MegatronFSDPConfig>(&config);
  return megatron == nullptr || megatron->zero_dp_strategy <= 1;
}

ActivationCheckpointing checkpointing_of(const DistributedConfig& config) {
  if (const auto* megatron = std::get_if<MegatronFSDPConfig>(&config)) {
    return megatron->activation_checkpointing ? ActivationCheckpointing::kFull
                                              : ActivationCheckpointing::kOff;
  }
  const auto* fsdp2 = std::get_if<FSDP2Config>(&config);
  return fsdp2 != nullptr ? fsdp2->activation_checkpointing
                          : std::get<DDPConfig>(config).activation_checkpointing;
}

void set_checkpointing(ActivationCheckpointing mode, DistributedConfig& config) {
  if (auto* fsdp2 = std::get_if<FSDP2Config>(&config)) {
    fsdp2->activation_checkpointing = mode;
  } else if (auto* megatron = std::get_if<MegatronFSDPConfig>(&config)) {
    megatron->activation_checkpointing = mode != ActivationCheckpointing::kOff;
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
