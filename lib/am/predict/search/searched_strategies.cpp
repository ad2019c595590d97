#include "am/predict/search/searched_strategies.h"

#include <string>
#include <utility>
#include <variant>

namespace am::predict {
namespace {

// Returns the strategy of `base` if its type is Config, otherwise a default Config.
template <typename Config>
Config options_of(const std::optional<config::Plan>& base) {
  const Config* chosen = base ? std::get_if<Config>(&base->strategy) : nullptr;
  return chosen != nullptr ? *chosen : Config{};
}

// Returns the modules that candidates of the strategy megatron recompute under selective
// checkpointing, unless the base plan lists modules. They are the modules whose tensors are large
// compared with the time of their recomputation.
std::vector<std::string> modules_to_recompute(const model::ModelConfig& model) {
  std::vector<std::string> modules = {"layernorm"};
  if (model.mla) modules.emplace_back("mla_up_proj");
  modules.emplace_back(model.moe ? "moe_act" : "mlp");
  return modules;
}

// Adds the strategy megatron with the etp_size of `base`. If `base` does not set etp_size and the
// model has experts, the first entry uses etp_size = tp_size, and a second entry with etp_size = 1
// is added.
void add_megatron(const std::optional<config::Plan>& base, const model::ModelConfig& model,
                  std::vector<config::DistributedConfig>& all) {
  auto megatron = options_of<config::MegatronConfig>(base);
  megatron.recompute_num_layers = 0;  // candidates recompute all layers or none
  megatron.recompute_method = "uniform";
  if (megatron.recompute_modules.empty()) megatron.recompute_modules = modules_to_recompute(model);
  all.emplace_back(megatron);
  if (!model.moe || megatron.etp_size > 0) return;
  megatron.etp_size = 1;
  all.emplace_back(megatron);
}

// Replaces each strategy by one entry for each recipe that the strategy supports. Does nothing if
// `recipes` is empty.
void vary_recipes(const std::vector<config::Fp8Recipe>& recipes,
                  std::vector<config::DistributedConfig>& all) {
  if (recipes.empty()) return;
  std::vector<config::DistributedConfig> varied;
  for (const config::Fp8Recipe recipe : recipes) {
    const bool other = recipe != config::Fp8Recipe::kNone && spec_of(recipe).megatron.empty();
    for (config::DistributedConfig strategy : all) {
      if (other && std::holds_alternative<config::MegatronConfig>(strategy)) continue;
      std::visit([&](auto& one) { one.fp8 = recipe; }, strategy);
      varied.push_back(std::move(strategy));
    }
  }
  all = std::move(varied);
}

}  // namespace

std::vector<config::DistributedConfig> searched_strategies(const SearchRequest& request) {
  const std::string& name = request.strategy;
  const std::optional<config::Plan>& base = request.base;
  std::vector<config::DistributedConfig> all;
  const bool every = name == "all";
  if (every || name == "fsdp2") {
    auto fsdp2 = options_of<config::FSDP2Config>(base);
    fsdp2.activation_checkpointing_every = 1;  // candidates checkpoint all layers or none
    all.emplace_back(std::move(fsdp2));
  }
  if (every || name == "megatron_fsdp") {
    auto megatron = options_of<config::MegatronFSDPConfig>(base);
    for (const int64_t stage : {1, 2, 3}) {
      megatron.zero_dp_strategy = stage;
      all.emplace_back(megatron);
    }
  }
  if (every || name == "ddp") all.emplace_back(options_of<config::DDPConfig>(base));
  const bool runs_megatron = cluster::runs_megatron(*request.implementation);
  if (name == "megatron" || (every && runs_megatron)) add_megatron(base, request.model, all);
  vary_recipes(request.recipes, all);
  return all;
}

bool is_fsdp2(const config::DistributedConfig& strategy) {
  return std::holds_alternative<config::FSDP2Config>(strategy);
}

bool has_every_axis(const config::DistributedConfig& strategy) {
  return is_fsdp2(strategy) || std::holds_alternative<config::MegatronConfig>(strategy);
}

int64_t expert_tp(const config::DistributedConfig& strategy, int64_t tp) {
  const auto* megatron = std::get_if<config::MegatronConfig>(&strategy);
  return megatron != nullptr ? megatron->expert_tp(tp) : 1;
}

}  // namespace am::predict
