#include "am/layout/parameter_choice.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "am/base/text.h"
#include "am/layout/quantization.h"

namespace am::layout {
namespace {

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return glob_match(pattern, name); });
}

class Choice {
 public:
  Choice(const config::Plan& plan, Layout& layout, Diagnostics& found)
      : plan_(plan), layout_(layout), found_(found) {}

  void freeze() {
    const char* key = "model.freeze_params";
    for (const std::string& pattern : plan_.model.freeze_params) {
      for (ParameterLayout* parameter : matches(key, pattern)) parameter->trainable = false;
    }
    const bool trains = std::any_of(layout_.parameters.begin(), layout_.parameters.end(),
                                    [](const ParameterLayout& each) { return each.trainable; });
    if (trains || layout_.parameters.empty()) return;
    found_.error(key, plan_.span(key), "freeze_params leaves no parameter to train",
                 "remove a pattern, or let it match fewer parameters");
  }

  void group_for_optimizer() {
    const config::OptimizerSection& section = plan_.optimizer;
    for (ParameterLayout& parameter : layout_.parameters) {
      parameter.optimizer = usual(parameter);
      parameter.orthogonalized = suits_muon(parameter);
    }
    for (const std::string& pattern : section.no_decay) {
      for (ParameterLayout* parameter : matches("optimizer.no_decay", pattern)) {
        parameter->optimizer.weight_decay = 0.0;
      }
    }
    // Later groups are applied first, so that the first group that matches a parameter decides.
    for (size_t g = section.groups.size(); g-- > 0;) {
      for (const std::string& pattern : section.groups[g].match) {
        for (ParameterLayout* parameter : matches("optimizer.group", pattern)) {
          apply(section.groups[g], *parameter);
        }
      }
    }
  }

  // Returns the parameter's entry in the inventory. Returns null if the layout has no inventory:
  // the layout then describes a torch module of the user.
  const model::ParameterSpec* spec_of(const ParameterLayout& parameter) const {
    const auto i = static_cast<size_t>(&parameter - layout_.parameters.data());
    const auto& specs = layout_.inventory.parameters;
    return i < specs.size() ? &specs[i] : nullptr;
  }

  // Returns a parameter's options before optimizer.no_decay and optimizer.group are applied.
  OptimizerOptions usual(const ParameterLayout& parameter) const {
    const model::ParameterSpec* spec = spec_of(parameter);
    const bool is_b = spec != nullptr && spec->adapter == model::AdapterPart::kB;
    return {plan_.optimizer.lr * (is_b ? plan_.lora.lr_ratio : 1.0), plan_.optimizer.weight_decay};
  }

  // Whether the optimizer "muon" updates the parameter, unless the first optimizer.group that
  // matches the parameter has name = "adamw". Muon's authors recommend Muon for the matrices
  // between the embedding and the head. Biases of stacked experts are 2-D too, but are not
  // matrices.
  bool suits_muon(const ParameterLayout& parameter) const {
    const model::ParameterSpec* spec = spec_of(parameter);
    return plan_.optimizer.name == "muon" && spec != nullptr && parameter.trainable &&
           parameter.shape.size() == 2 && spec->layer >= 0 && !spec->bias;
  }

  void apply(const config::OptimizerGroup& group, ParameterLayout& parameter) const {
    const OptimizerOptions options = usual(parameter);
    parameter.optimizer = {group.lr.value_or(options.lr),
                           group.weight_decay.value_or(options.weight_decay)};
    parameter.orthogonalized = suits_muon(parameter) && !group.name;
  }

  void place(const config::FSDP2Config& strategy) {
    for (const auto& [pattern, dim] : strategy.shard_placement) {
      for (ParameterLayout* parameter : matches(kPlacement, pattern)) {
        parameter->fsdp_dim = static_cast<int>(dim);
      }
    }
    for (const std::string& pattern : strategy.ignored_params) {
      for (ParameterLayout* parameter : matches("strategy.ignored_params", pattern)) {
        parameter->ignored = true;
        parameter->fsdp = false;
        parameter->fsdp_dim = 0;
      }
    }
    check_dimensions();
  }

  // Sets `quantized` for the frozen matrices of linear layers and routed experts in the decoder
  // layers, except matrices that FSDP ignores and matrices of the role kOther, which am-run cannot
  // compute.
  void quantize() {
    for (ParameterLayout& parameter : layout_.parameters) {
      const model::ParameterSpec* spec = spec_of(parameter);
      parameter.quantized = plan_.lora.rank > 0 && plan_.lora.quantize_base == "nf4" &&
                            spec != nullptr && spec->layer >= 0 && !spec->bias &&
                            spec->adapter == model::AdapterPart::kNone && !parameter.trainable &&
                            !parameter.ignored && parameter.shape.size() >= 2 &&
                            spec->role != model::Role::kOther &&
                            (spec->module_kind == model::ModuleKind::kLinear ||
                             spec->module_kind == model::ModuleKind::kExpert);
    }
    check_blocks();
  }

 private:
  static constexpr const char* kPlacement = "strategy.shard_placement";

  std::vector<ParameterLayout*> matches(const char* key, const std::string& pattern) {
    std::vector<ParameterLayout*> matched;
    if (is_glob(pattern)) {
      for (ParameterLayout& parameter : layout_.parameters) {
        if (glob_match(pattern, parameter.name)) matched.push_back(&parameter);
      }
    } else if (const auto named = by_name().find(pattern); named != by_name().end()) {
      matched.push_back(named->second);
    }
    if (matched.empty()) refuse(key, pattern);
    return matched;
  }

  const std::unordered_map<std::string_view, ParameterLayout*>& by_name() {
    if (by_name_.empty()) {
      for (ParameterLayout& parameter : layout_.parameters) {
        by_name_.emplace(parameter.name, &parameter);
      }
    }
    return by_name_;
  }

  // Reports each of the first 20 patterns that match no parameter, and all further patterns in one
  // error: if a plan was written for another model, many patterns match no parameter.
  void refuse(const char* key, const std::string& pattern) {
    constexpr int kMostNamed = 20;
    if (++refused_ > kMostNamed + 1) return;
    if (refused_ > kMostNamed) {
      found_.error(key, plan_.span(key), "more patterns, not listed here, match no parameter",
                   "`am-plan model CONFIG` lists the modules' names");
      return;
    }
    std::vector<std::string> names;
    for (const ParameterLayout& parameter : layout_.parameters) names.push_back(parameter.name);
    const auto near = nearest(pattern, names);
    found_.error(key, plan_.span(key), cat("no parameter matches \"", pattern, "\""),
                 near ? cat("did you mean \"", *near, "\"?")
                      : "globs match whole names, as in \"model.layers.0.*\"");
  }

  // Reports all wrong dims of shard_placement in one error, because one glob can match many
  // parameters.
  void check_dimensions() {
    std::vector<std::string> wrong;
    for (const ParameterLayout& parameter : layout_.parameters) {
      if (auto why = wrong_dimension(parameter)) wrong.push_back(std::move(*why));
    }
    if (wrong.empty()) return;
    const std::string others = wrong.size() == 1 ? "" : cat("; and ", wrong.size() - 1, " more");
    found_.error(
        kPlacement, plan_.span(kPlacement), cat(wrong.front(), others),
        "choose dimension 0, where pieces may be uneven, or a dimension that is divided evenly");
  }

  std::optional<std::string> wrong_dimension(const ParameterLayout& parameter) const {
    const auto dim = static_cast<size_t>(parameter.fsdp_dim);
    if (dim == 0) return std::nullopt;
    if (dim >= parameter.shape.size()) {
      return cat(parameter.name, " has no dimension ", dim, ": it has only ",
                 parameter.shape.size(), " dimensions");
    }
    if (!parameter.fsdp) return std::nullopt;
    const int64_t parts = layout_.mesh.group_size(parameter.shard_group);
    for (int64_t tp = 0; tp < layout_.mesh.sizes().tp; ++tp) {
      const int64_t rank = layout_.mesh.rank({0, 0, 0, 0, tp});
      const int64_t size = parameter.tp_shape(layout_.mesh, rank)[dim];
      if (size % parts == 0) continue;
      return cat("dimension ", dim, " of ", parameter.name, " has size ", size,
                 parameter.tp_dim ? " on a tp rank" : "", ", which is not a multiple of the ",
                 parts, " ranks that shard it");
    }
    return std::nullopt;
  }

  // Reports the first matrix whose rows, as ranks store them, do not consist of whole NF4 blocks
  // (quantization.h).
  void check_blocks() {
    const char* key = "lora.quantize_base";
    for (const ParameterLayout& parameter : layout_.parameters) {
      if (!parameter.quantized) continue;
      for (int64_t tp = 0; tp < layout_.mesh.sizes().tp; ++tp) {
        const int64_t rank = layout_.mesh.rank({0, 0, 0, 0, tp});
        for (const LocalShard& part : parameter.parts(layout_.mesh, rank)) {
          const int64_t row = part.box.shape.back();
          if (row % kNf4Block == 0) continue;
          const bool cut = row != parameter.shape.back();
          return found_.error(
              key, plan_.span(key),
              cat("a row of ", parameter.name, " has ", row, " values", cut ? " on a rank" : "",
                  ", but nf4 needs a multiple of its block size, ", kNf4Block),
              cut ? "a smaller tp_size, no shard_placement on this dimension, or quantize_base = "
                    "\"none\""
                  : "quantize_base = \"none\"");
        }
      }
    }
  }

  const config::Plan& plan_;
  Layout& layout_;
  Diagnostics& found_;
  std::unordered_map<std::string_view, ParameterLayout*> by_name_;
  int refused_ = 0;
};

}  // namespace

bool is_frozen(const config::Plan& plan, std::string_view parameter) {
  return matches_any(plan.model.freeze_params, parameter);
}

void choose_parameters(const config::Plan& plan, Layout& layout, Diagnostics& found) {
  Choice choice(plan, layout, found);
  choice.freeze();
  choice.group_for_optimizer();
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) choice.place(*fsdp2);
  choice.quantize();
}

}  // namespace am::layout
