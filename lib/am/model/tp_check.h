// Checks a tensor-parallel plan for styles that do not fit their module, and for modules whose
// styles do not fit each other. resolve_tp_plan() calls this.
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
  std::vector<int> parameters;  // indices into Inventory::parameters; empty for a tied head
  // Style and index of the last rule of the plan that matches the module; absent and -1 if no rule
  // matches it.
  std::optional<TpStyle> style;
  int rule = -1;

  Role role() const { return spec->role; }
  ModuleKind kind() const { return spec->kind; }
  // Whether the module is q_norm or k_norm. If the projection before this norm is cut, a rank has
  // only some of the heads that the norm reads.
  bool is_head_norm() const;
  bool has_cut_output() const {
    return style == TpStyle::kColwise || style == TpStyle::kPackedColwise;
  }
};

// All modules of a model, each expert's modules listed separately. The inventory must outlive this
// object.
class TpModules {
 public:
  explicit TpModules(const Inventory& inventory);
  TpModules(const TpModules&) = delete;
  TpModules& operator=(const TpModules&) = delete;

  std::vector<TpModule>& all() { return modules_; }
  const std::vector<TpModule>& all() const { return modules_; }
  // Returns the module with this role in the layer, or outside the layers if `layer` is -1. For a
  // role of experts, returns the module of the first expert. Returns null if there is no such
  // module.
  const TpModule* find(int layer, Role role) const;
  // Returns the attention of the module's layer.
  const AttentionSpec& attention_of(const TpModule& module) const {
    return spec_.layer(module.layer).attention;
  }
  // If the module is a norm over heads or a vector with a value per head, returns the projection
  // that computes these heads. Returns null if a fused matrix computes them, and for other modules.
  const TpModule* projection_of(const TpModule& module) const;
  // Whether the heads of projection_of() are sharded over tp.
  bool heads_are_cut(const TpModule& module) const;

 private:
  const DecoderSpec& spec_;
  std::vector<TpModule> modules_;
  std::map<std::pair<int, Role>, size_t> by_role_;
};

// Adds the errors of rules "tp.style" and "tp.pair". A mistake that repeats in many layers is
// reported once. `where` is the location of the plan, which errors cite for rules without a file.
void check_tp_modules(const TpPlan& plan, const TpModules& modules, const Span& where,
                      Diagnostics& found);

}  // namespace am::model
