// Checks of a tensor-parallel plan: styles that do not fit their module, and modules whose styles
// are incompatible. Used by resolve_tp_plan.
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
  std::vector<int> parameters;   // indices into Inventory::parameters; none for a tied head
  std::optional<TpStyle> style;  // from the last rule that matched
  int rule = -1;                 // index of that rule in the plan

  Role role() const { return spec->role; }
  ModuleKind kind() const { return spec->kind; }
  // Whether the module is q_norm or k_norm. If the projection before this norm is cut, a rank has
  // only some of the heads that the norm reads.
  bool is_head_norm() const;
  bool has_cut_output() const {
    return style == TpStyle::kColwise || style == TpStyle::kPackedColwise;
  }
};

// All modules of a model, with each expert listed separately. The inventory must outlive the
// object.
class TpModules {
 public:
  explicit TpModules(const Inventory& inventory);
  TpModules(const TpModules&) = delete;
  TpModules& operator=(const TpModules&) = delete;

  std::vector<TpModule>& all() { return modules_; }
  const std::vector<TpModule>& all() const { return modules_; }
  // Returns the module with this role in a layer, or outside the layers (-1). For expert roles
  // returns the first expert's. Null if there is none.
  const TpModule* find(int layer, Role role) const;
  // Attention of the module's layer.
  const AttentionSpec& attention_of(const TpModule& module) const {
    return spec_.layer(module.layer).attention;
  }
  // Returns the projection that produces the heads on which a head norm or head vector acts. Null
  // if these heads come from a fused matrix, or for other modules.
  const TpModule* projection_of(const TpModule& module) const;
  // Whether the heads of projection_of() are sharded over tp.
  bool heads_are_cut(const TpModule& module) const;

 private:
  const DecoderSpec& spec_;
  std::vector<TpModule> modules_;
  std::map<std::pair<int, Role>, size_t> by_role_;
};

// Adds "tp.style" and "tp.pair". A mistake that repeats over layers is reported once.
void check_tp_modules(const TpPlan& plan, const TpModules& modules, const Span& where,
                      Diagnostics& found);

}  // namespace am::model
