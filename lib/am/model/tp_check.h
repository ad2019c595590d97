// What a tensor-parallel plan must not say: styles that do not fit their module, and modules whose
// styles do not work together. Used by resolve_tp_plan.
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
  std::optional<TpStyle> style;  // of the last rule that matched
  int rule = -1;                 // that rule's index in the plan

  Role role() const { return spec->role; }
  ModuleKind kind() const { return spec->kind; }
  // q_norm and k_norm: they act on heads, of which a rank has only some when the projection is cut.
  bool is_head_norm() const;
  bool has_cut_output() const {
    return style == TpStyle::kColwise || style == TpStyle::kPackedColwise;
  }
};

// The modules of a model, each expert's own one by one. The inventory must outlive them.
class TpModules {
 public:
  explicit TpModules(const Inventory& inventory);
  TpModules(const TpModules&) = delete;
  TpModules& operator=(const TpModules&) = delete;

  std::vector<TpModule>& all() { return modules_; }
  const std::vector<TpModule>& all() const { return modules_; }
  // In a layer, or outside of them (-1); of the experts' the first; null: there is none.
  const TpModule* find(int layer, Role role) const;
  // Of the module's layer.
  const AttentionSpec& attention_of(const TpModule& module) const {
    return spec_.layer(module.layer).attention;
  }
  // What gives the heads that a norm over heads, or a head vector, acts on; null: no module alone.
  const TpModule* projection_of(const TpModule& module) const;
  // Whether those heads are this rank's own.
  bool heads_are_cut(const TpModule& module) const;

 private:
  const DecoderSpec& spec_;
  std::vector<TpModule> modules_;
  std::map<std::pair<int, Role>, size_t> by_role_;
};

// Adds "tp.style" and "tp.pair". Layers that break a rule in the same way are reported once.
void check_tp_modules(const TpPlan& plan, const TpModules& modules, const Span& where,
                      Diagnostics& found);

}  // namespace am::model
