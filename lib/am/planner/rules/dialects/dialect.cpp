#include "am/planner/rules/dialects/dialect.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "am/base/text.h"
#include "am/planner/legal_values.h"

namespace am::planner {

std::span<const Dialect> dialects() {
  static const std::array<Dialect, 3> all = {{
      {"torchtitan", "torchtitan 0.3.0", torchtitan_rules()},
      {"megatron", "Megatron-LM", megatron_rules()},
      {"nemo-automodel", "NeMo AutoModel 0.7.0", nemo_automodel_rules()},
  }};
  return all;
}

const Dialect* find_dialect(std::string_view name) {
  const auto all = dialects();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Dialect& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> dialect_names() {
  std::vector<std::string> names;
  for (const Dialect& dialect : dialects()) names.emplace_back(dialect.name);
  return names;
}

void judge(const Dialect& dialect, const config::Plan& plan, const model::ModelConfig* model,
           int64_t world_size, Diagnostics& found) {
  Diagnostics own;
  const MeshDraft draft = draft_mesh(plan, world_size, own);
  for (const Diagnostic& item : own.items()) {
    if (item.rule == "mesh.size" || item.rule == "mesh.world") found.add(item);
  }
  if (!draft.axes.has_value()) return;
  const DialectLayout layout = dialect_layout(plan, model, world_size);
  if (layout.world == 0) return;
  for (const DialectRule& one : dialect.rules) {
    std::vector<Violation> violations;
    one.check(layout, violations);
    for (const Violation& violation : violations) {
      found.add({std::string(one.rule.id), one.severity, plan.span(violation.key),
                 cat(violation.message, " (", one.rule.summary, ")"), violation.help});
    }
  }
}

void demand_whole_heads(const DialectLayout& layout, const char* name, int64_t heads,
                        std::vector<Violation>& found) {
  if (heads % layout.tp == 0) return;
  const int64_t both =
      std::gcd(layout.model->num_attention_heads, layout.model->num_key_value_heads);
  found.push_back({"mesh.tp_size",
                   cat("tp_size = ", layout.tp, " does not divide ", name, " = ", heads),
                   assignment("tp_size", nearest_values(divisors(both), layout.tp))});
}

}  // namespace am::planner
