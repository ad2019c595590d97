// What a tensor-parallel plan must not say: styles that do not fit their module, and modules whose
// styles do not work together. Used by resolve_tp_plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/model/tp_plan.h"

namespace am::model {

struct TpModule {
  std::string name;
  ModuleKind kind = ModuleKind::kLinear;
  int layer = -1;
  std::vector<int> parameters;   // indices into Inventory::parameters; none for a tied head
  std::optional<TpStyle> style;  // of the last rule that matched
  int rule = -1;                 // that rule's index in the plan
};

// Routed and shared experts and what chooses them.
bool in_expert_layer(const TpModule& module);
// Whether the query projection beside the head vector `modules[at]` is column-wise, its output cut.
bool query_is_cut(const std::vector<TpModule>& modules, size_t at);

// q_norm and k_norm (Phi: q_layernorm, k_layernorm): they act on heads, of which a rank has only
// some when the projection is cut.
bool is_head_norm(const TpModule& module);
// Whether the projection that feeds the head norm `modules[at]` is column-wise with a cut output.
bool projection_is_cut(const std::vector<TpModule>& modules, size_t at);

// Adds "tp.style" and "tp.pair". Layers that break a rule in the same way are reported once.
void check_tp_modules(const TpPlan& plan, const std::vector<TpModule>& modules,
                      const ModelConfig& config, const Span& where, Diagnostics& found);

}  // namespace am::model
