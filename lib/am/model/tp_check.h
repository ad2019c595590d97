// Checks a tensor-parallel plan for styles that cannot be applied to their module, and for modules
// whose styles do not fit each other. Called by resolve_tp_plan().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/model/tp_plan.h"

namespace am::model {

struct TpModule {
  std::string name;
  const ModuleSpec* spec = nullptr;
  int layer = -1;
  // Indices into Inventory::parameters; empty for a tied head without a bias.
  std::vector<int> parameters;
  // Style and index of the plan's last rule that matches the module. If no rule matches, `style` is
  // absent and `rule` is -1.
  std::optional<TpStyle> style;
  int rule = -1;

  Role role() const { return spec->role; }
  ModuleKind kind() const { return spec->kind; }
  // Whether the module is a norm over query or key heads. If the projection before the norm is
  // sharded, the norm reads only some of the heads on each rank.
  bool is_head_norm() const;
  // Whether the module's output is sharded over tp on its last dim.
  bool has_cut_output() const {
    return style == TpStyle::kColwise || style == TpStyle::kPackedColwise;
  }
};

// All modules of a model that have parameters, including every expert's modules, and the head, even
// if it has no parameters because it is tied. The inventory must outlive this object.
class TpModules {
 public:
  explicit TpModules(const Inventory& inventory);
  TpModules(const TpModules&) = delete;
  TpModules& operator=(const TpModules&) = delete;

  std::vector<TpModule>& all() { return modules_; }
  const std::vector<TpModule>& all() const { return modules_; }
  // Returns the module with this role in the layer, or outside the layers if `layer` is -1. For a
  // role of routed experts, returns the first expert's module. Returns null if there is no such
  // module.
  const TpModule* find(int layer, Role role) const;
  // Returns the attention of the module's layer. The module must belong to a layer.
  const AttentionSpec& attention_of(const TpModule& module) const {
    return spec_.layer(module.layer).attention;
  }
  // For a norm over heads or a vector with a value per head, returns the projection that computes
  // these heads: the matrix of queries or keys, or the fused matrix. Returns null for all other
  // modules.
  const TpModule* projection_of(const TpModule& module) const;
  // Whether the output of the module's projection_of() is sharded over tp. False if projection_of()
  // returns null.
  bool heads_are_cut(const TpModule& module) const;

 private:
  const DecoderSpec& spec_;
  std::vector<TpModule> modules_;
  std::map<std::pair<int, Role>, size_t> by_role_;
};

// Adds the errors "tp.style" and "tp.pair", which resolve_tp_plan() describes. A mistake in many
// layers is reported once. Errors of a plan's rule that does not come from a file cite `where`, the
// location of the plan.
void check_tp_modules(const TpPlan& plan, const TpModules& modules, const Span& where,
                      Diagnostics& found);

}  // namespace am::model
