#include "am/parallel/module/module_units.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/layout/parameter_choice.h"
#include "am/layout/replicas.h"
#include "am/model/tp_pattern.h"

namespace am::parallel {

namespace {

std::string path_of(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : cat(parent, ".", name);
}

// Wrapper that replaces an element of a Sequential. Its forward() calls the wrapped module between
// the hooks of a strategy.
class SequentialElement final : public torch::nn::Module, public ModuleUnit {
 public:
  explicit SequentialElement(torch::nn::AnyModule module) : module_(std::move(module)) {}

  at::Tensor forward(at::Tensor x) {
    const auto inner = [this](const at::Tensor& given) { return module_.forward(given); };
    return strategy().hooks == nullptr ? inner(x) : run(inner, x);
  }

 private:
  torch::nn::AnyModule module_;
};

// A parameter of the module tree, and the units in which it occurs.
struct Found {
  std::string name;
  at::Tensor value;
  torch::nn::Module* module = nullptr;  // the module that owns the parameter
  std::vector<size_t> units;            // indices into Search::units()
};

// Traverses a module tree, and collects its units and parameters. Unit 0 is the whole module.
class Search {
 public:
  explicit Search(const std::shared_ptr<torch::nn::Module>& module) {
    auto* whole = dynamic_cast<ModuleUnit*>(module.get());
    add_unit("", whole, /*parent=*/0);
    visit(*module, "", 0);
  }

  struct Unit {
    std::string name;
    ModuleUnit* module = nullptr;  // null only for the whole module, if that is not a Sharded<M>
    size_t parent = 0;             // index of the innermost unit around this unit
  };
  const std::vector<Unit>& units() const { return units_; }
  const std::vector<Found>& parameters() const { return parameters_; }

  // Returns the innermost unit that contains all units in which the parameter occurs.
  size_t unit_of(const Found& parameter) const {
    size_t common = parameter.units.front();
    for (const size_t other : parameter.units) {
      while (!contains(common, other)) common = units_[common].parent;
    }
    return common;
  }

 private:
  bool contains(size_t outer, size_t unit) const {
    while (unit != outer && unit != 0) unit = units_[unit].parent;
    return unit == outer;
  }

  // Returns the index of the module's unit. A module that occurs several times in the tree is a
  // single unit.
  size_t add_unit(const std::string& name, ModuleUnit* module, size_t parent) {
    for (size_t unit = 1; unit < units_.size(); ++unit) {
      if (units_[unit].module == module) return unit;
    }
    units_.push_back({name, module, parent});
    return units_.size() - 1;
  }

  void visit(torch::nn::Module& module, const std::string& path, size_t unit) {
    for (const auto& each : module.named_parameters(/*recurse=*/false)) {
      add_parameter({path_of(path, each.key()), each.value(), &module, {}}, unit);
    }
    auto* sequential = dynamic_cast<torch::nn::SequentialImpl*>(&module);
    auto element =
        sequential == nullptr ? torch::nn::SequentialImpl::Iterator() : sequential->begin();
    for (const auto& child : module.named_children()) {
      const std::string name = path_of(path, child.key());
      auto* marked = dynamic_cast<ModuleUnit*>(child.value().get());
      if (sequential != nullptr) {
        if (marked == nullptr) marked = element_of(*element, *child.value());
        ++element;
      }
      const bool is_unit = marked != nullptr && !child.value()->parameters().empty();
      visit(*child.value(), name, is_unit ? add_unit(name, marked, unit) : unit);
    }
  }

  // Replaces an element of a Sequential by a SequentialElement that wraps the element, and returns
  // the wrapper. If the element is already a wrapper, returns the element. Returns null for a
  // module without parameters.
  static ModuleUnit* element_of(torch::nn::AnyModule& element, const torch::nn::Module& module) {
    if (module.parameters().empty()) return nullptr;
    const auto held = std::dynamic_pointer_cast<SequentialElement>(element.ptr());
    if (held) return held.get();
    const auto made = std::make_shared<SequentialElement>(std::move(element));
    element = torch::nn::AnyModule(made);
    return made.get();
  }

  void add_parameter(Found found, size_t unit) {
    const auto [known, is_new] =
        known_.emplace(found.value.unsafeGetTensorImpl(), parameters_.size());
    if (is_new) parameters_.push_back(std::move(found));
    parameters_[known->second].units.push_back(unit);
  }

  std::vector<Unit> units_;
  std::vector<Found> parameters_;
  std::map<const c10::TensorImpl*, size_t> known_;
};

void require_parameter(const Found& parameter, at::ScalarType dtype) {
  if (parameter.value.scalar_type() != dtype) {
    throw Error(ErrorKind::kUsage,
                cat("the parameter ", parameter.name, " has dtype ",
                    c10::toString(parameter.value.scalar_type()), ", but the first parameter has ",
                    c10::toString(dtype)),
                "convert the module to one dtype; a mixed-precision policy sets other dtypes for "
                "computation");
  }
  if (parameter.value.dim() == 0) {
    throw Error(
        ErrorKind::kUsage,
        cat("the parameter ", parameter.name, " is a scalar, which has no dimension to shard"),
        "give it the shape [1]");
  }
}

// Applies a tensor-parallel plan. If several rules match a module, the last of them determines the
// module's style.
class Styles {
 public:
  Styles(const model::TpPlan& plan, const mesh::MeshLayout& mesh, ModuleUnits& made)
      : plan_(plan), tp_(mesh.sizes().tp), made_(made), matched_(plan.rules.size(), false) {}

  // Sets in `parameter` how the plan shards the parameter `found` over tp. Throws Error(kPlan) if
  // the parameter's module cannot have the style.
  void place(const Found& found, layout::ParameterLayout& parameter) {
    const size_t dot = found.name.rfind('.');
    if (dot == std::string::npos) return;
    const std::string_view module = std::string_view(found.name).substr(0, dot);
    std::optional<TpStyle> style;
    for (size_t i = 0; i < plan_.rules.size(); ++i) {
      if (!model::matches_module(plan_.rules[i].pattern, module)) continue;
      matched_[i] = true;
      style = plan_.rules[i].style;
    }
    if (!style || tp_ == 1) return;
    if (*style == TpStyle::kSequenceParallel || *style == TpStyle::kReplicatedWithGradAllreduce) {
      parameter.grad_sum_over_tp =
          plan_.sequence_parallel || *style == TpStyle::kReplicatedWithGradAllreduce;
      return;
    }
    auto* layer = dynamic_cast<ParallelLayer*>(found.module);
    if (layer == nullptr) {
      throw Error(ErrorKind::kPlan,
                  cat("the module ", module, " cannot have the style ", model::to_string(*style),
                      ": it is a ", found.module->name()),
                  "make it a parallel::Linear or a parallel::Embedding");
    }
    const ParallelLayer::Style full{*style, nullptr, plan_.sequence_parallel};
    layer->place(full, tp_, parameter, std::string_view(found.name).substr(dot + 1));
    if (made_.layers.empty() || made_.layers.back().first != layer) {
      made_.layers.emplace_back(layer, full);
    }
  }

  // Throws Error(kPlan) if a rule has matched no module with parameters.
  void require_matches() const {
    for (size_t i = 0; i < plan_.rules.size(); ++i) {
      if (matched_[i]) continue;
      throw Error(ErrorKind::kPlan,
                  cat("no module with parameters matches \"", plan_.rules[i].pattern, "\""),
                  "patterns of the tensor-parallel plan name modules; `*` matches one component of "
                  "a name");
    }
  }

 private:
  const model::TpPlan& plan_;
  int64_t tp_;
  ModuleUnits& made_;
  std::vector<bool> matched_;  // for each rule: whether it matched a module
};

}  // namespace

ModuleUnits find_module_units(const std::shared_ptr<torch::nn::Module>& module,
                              const config::Plan& plan, const model::TpPlan& tp_plan,
                              const mesh::MeshLayout& mesh) {
  const Search search(module);
  if (search.parameters().empty()) {
    throw Error(ErrorKind::kUsage, cat("the module ", module->name(), " has no parameters"));
  }
  ModuleUnits made{.layout = {.mesh = mesh}};
  layout::Layout& layout = made.layout;
  layout.stage_owners = {0};
  const bool shards = layout::shards_parameters(plan.strategy);
  // If the whole module is a Sharded<M>, it is the first unit of the layout. Otherwise, each
  // parameter must belong to another unit.
  const bool has_root = search.units().front().module != nullptr;
  for (size_t u = has_root ? 0 : 1; u < search.units().size(); ++u) {
    const Search::Unit& unit = search.units()[u];
    const bool root = u == 0;
    layout.units.push_back({.kind = root ? model::UnitKind::kRoot : model::UnitKind::kLayer,
                            .name = unit.name,
                            .layer = root ? -1 : static_cast<int>(u)});
    made.modules.push_back(unit.module);
  }
  layout.tp_plan = tp_plan;
  Styles styles(tp_plan, mesh, made);
  const at::ScalarType dtype = search.parameters().front().value.scalar_type();
  for (const Found& parameter : search.parameters()) {
    const size_t unit = search.unit_of(parameter);
    if (unit == 0 && !has_root) {
      throw Error(ErrorKind::kUsage,
                  cat("no module around the parameter ", parameter.name, " is of type Sharded<M>"),
                  cat("make the whole model a Sharded<", module->name(), ">"));
    }
    const size_t index = unit - (has_root ? 0 : 1);
    layout.units[index].parameters.push_back(static_cast<int>(layout.parameters.size()));
    layout::ParameterLayout placed;
    placed.name = parameter.name;
    placed.shape.assign(parameter.value.sizes().begin(), parameter.value.sizes().end());
    placed.trainable = parameter.value.requires_grad();
    placed.fsdp = shards;
    placed.unit = static_cast<int>(index);
    styles.place(parameter, placed);
    layout.parameters.push_back(std::move(placed));
    made.parameters.push_back(
        std::make_shared<nn::Parameter>(nn::Parameter{parameter.name, parameter.value}));
  }
  styles.require_matches();
  Diagnostics wrong;
  layout::choose_parameters(plan, layout, wrong);
  if (wrong.errors() > 0) {
    const Diagnostic& first = wrong.items().front();
    throw Error(ErrorKind::kPlan, first.message, first.help);
  }
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    require_parameter(search.parameters()[i], dtype);
  }
  return made;
}

}  // namespace am::parallel
