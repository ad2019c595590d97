#include "am/model/lora.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "am/base/text.h"

namespace am::model {
namespace {

constexpr std::string_view kAllLinear = "all-linear";

bool matches_name(const std::string& target, std::string_view name) {
  if (is_glob(target)) return glob_match(target, name);
  return name == target || ends_with(name, "." + target);
}

bool matches(const std::string& target, const ModuleSpec& module, std::string_view name) {
  if (target == kAllLinear) return can_have_adapter(module) && module.role != Role::kHead;
  return matches_name(target, name);
}

std::string_view why_not(const ModuleSpec& module) {
  if (module.role == Role::kOther) return "is a part of a layer that only am-plan knows";
  switch (module.kind) {
    case ModuleKind::kExpert:
      return "is a routed expert";
    case ModuleKind::kEmbedding:
      return "is an embedding";
    case ModuleKind::kNorm:
      return "is a norm";
    case ModuleKind::kRouter:
      return "is a router";
    case ModuleKind::kHeadVector:
      return "is a value for each head";
    case ModuleKind::kLinear:
      break;
  }
  return "shares the embedding's weight";  // kLinear: only a tied head cannot have an adapter
}

using Visit = std::function<void(const ModuleSpec& module, const std::string& name)>;

void for_each_module(const DecoderSpec& spec, const Visit& visit) {
  for (const ModuleSpec& module : spec.before) visit(module, module.name);
  for (size_t layer = 0; layer < spec.kind_of_layer.size(); ++layer) {
    const std::string prefix = cat(spec.names.layers, ".", layer, ".");
    for (const ModuleSpec& module : spec.layer(static_cast<int64_t>(layer)).modules) {
      visit(module, prefix + module.name);
    }
  }
  for (const ModuleSpec& module : spec.after) visit(module, module.name);
}

class Adapting {
 public:
  Adapting(DecoderSpec& spec, const LoraConfig& lora)
      : spec_(spec), lora_(lora), adapter_{lora.rank, lora.scale, lora.dropout, lora.dora} {}

  void run() {
    for (ModuleSpec& module : spec_.after) {
      if (is_target(module, module.name)) module.adapter = adapter_;
    }
    const std::vector<LayerSpec> before = std::exchange(spec_.kinds, {});
    // Maps {index of a layer kind without adapters, flag for each module: whether it is a target}
    // to the index of the layer kind with adapters.
    std::map<std::pair<int, std::vector<bool>>, int> kind_of;
    for (size_t i = 0; i < spec_.kind_of_layer.size(); ++i) {
      int& kind = spec_.kind_of_layer[i];
      const LayerSpec& like = before[static_cast<size_t>(kind)];
      std::vector<bool> targets = targets_in(like, cat(spec_.names.layers, ".", i, "."));
      const auto number = static_cast<int>(spec_.kinds.size());
      const auto [known, added] = kind_of.try_emplace({kind, targets}, number);
      if (added) spec_.kinds.push_back(adapted(like, targets));
      kind = known->second;
    }
  }

 private:
  bool is_target(const ModuleSpec& module, const std::string& name) const {
    return can_have_adapter(module) &&
           std::any_of(lora_.target_modules.begin(), lora_.target_modules.end(),
                       [&](const std::string& target) { return matches(target, module, name); });
  }

  std::vector<bool> targets_in(const LayerSpec& layer, const std::string& prefix) const {
    std::vector<bool> targets;
    for (const ModuleSpec& module : layer.modules) {
      targets.push_back(is_target(module, prefix + module.name));
    }
    return targets;
  }

  LayerSpec adapted(LayerSpec layer, const std::vector<bool>& targets) const {
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i]) layer.modules[i].adapter = adapter_;
    }
    return layer;
  }

  DecoderSpec& spec_;
  const LoraConfig& lora_;
  AdapterSpec adapter_;
};

}  // namespace

bool can_have_adapter(const ModuleSpec& module) {
  const bool linear = module.kind == ModuleKind::kLinear || module.role == Role::kSharedWeigher;
  return linear && module.stored && module.in > 0 && module.role != Role::kOther;
}

DecoderSpec with_lora(DecoderSpec spec, const LoraConfig& lora) {
  if (lora.rank > 0) Adapting(spec, lora).run();
  return spec;
}

std::vector<BadTarget> find_bad_targets(const DecoderSpec& spec, const LoraConfig& lora) {
  std::vector<BadTarget> bad;
  for (const std::string& target : lora.target_modules) {
    BadTarget found{.target = target, .matched = {}};
    bool good = false;
    for_each_module(spec, [&](const ModuleSpec& module, const std::string& name) {
      if (good || !matches(target, module, name)) return;
      good = can_have_adapter(module);
      if (good || found.matched) return;
      found.matched = name;
      found.why = why_not(module);
    });
    if (!good) bad.push_back(std::move(found));
  }
  return bad;
}

bool is_saved(const std::vector<std::string>& modules_to_save, std::string_view module) {
  return std::any_of(modules_to_save.begin(), modules_to_save.end(),
                     [&](const std::string& entry) { return matches_name(entry, module); });
}

std::vector<BadTarget> find_bad_saved(const DecoderSpec& spec, const LoraConfig& lora) {
  std::vector<BadTarget> bad;
  for (const std::string& entry : lora.modules_to_save) {
    BadTarget found{.target = entry, .matched = {}};
    bool good = false, adapted = false;
    for_each_module(spec, [&](const ModuleSpec& module, const std::string& name) {
      if (adapted || !matches_name(entry, name)) return;
      adapted = module.adapter.has_value();
      if (!adapted && module.stored) {
        good = true;
        return;
      }
      found.matched = name;
      found.why = adapted                      ? "has an adapter"
                  : module.role == Role::kHead ? "shares the embedding's weight"
                                               : "has no weight";
    });
    if (!good || adapted) bad.push_back(std::move(found));
  }
  return bad;
}

std::vector<std::string> legal_targets(const DecoderSpec& spec) {
  std::vector<std::string> legal;
  for_each_module(spec, [&](const ModuleSpec& module, const std::string& name) {
    std::string last = name.substr(name.rfind('.') + 1);
    if (!can_have_adapter(module) || std::find(legal.begin(), legal.end(), last) != legal.end()) {
      return;
    }
    legal.push_back(std::move(last));
  });
  return legal;
}

}  // namespace am::model
