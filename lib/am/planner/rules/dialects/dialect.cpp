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
    if (one.reads == Reads::kModel && model == nullptr) continue;
    Violations violations;
    one.check(layout, violations);
    for (const Violation& violation : violations) {
      found.add({std::string(one.rule.id), one.severity, plan.span(violation.key),
                 cat(violation.message, " (", one.rule.summary, ")"), violation.help});
    }
  }
}

void demand_whole_heads(const DialectLayout& layout, const char* name, int64_t heads,
                        Violations& found) {
  if (heads % layout.tp == 0) return;
  const int64_t both =
      std::gcd(layout.model->num_attention_heads, layout.model->num_key_value_heads);
  found.push_back({"mesh.tp_size",
                   cat("tp_size = ", layout.tp, " does not divide ", name, " = ", heads),
                   nearest_divisors("tp_size", both, layout.tp)});
}

void check_even_experts(const DialectLayout& layout, Violations& found) {
  const int64_t experts = layout.experts();
  if (experts == 0 || experts % layout.ep == 0) return;
  found.push_back({"mesh.ep_size",
                   cat("ep_size = ", layout.ep, " does not divide the ", experts, " experts"),
                   nearest_divisors("ep_size", experts, layout.ep)});
}

void check_tied(const DialectLayout& layout, Violations& found) {
  if (layout.pp == 1 || !layout.model->tie_word_embeddings) return;
  found.push_back({"mesh.pp_size",
                   cat("the embedding is tied to the head, and pp_size = ", layout.pp),
                   "pp_size = 1, or a model with tie_word_embeddings = false"});
}

void check_torch_schedule(const DialectLayout& layout, Violations& found) {
  if (layout.pp == 1) return;
  const auto demand = pipeline::violated_demand(layout.pipeline);
  if (!demand.has_value()) return;
  found.push_back(
      {cat("pipeline.", demand->key), demand->message, assignment(demand->key, demand->nearest)});
}

void demand_whole_batches(const DialectLayout& layout, int64_t of_all_ranks, Violations& found) {
  if (of_all_ranks == 0 || layout.global_batch % of_all_ranks == 0) return;
  found.push_back(
      {"train.global_batch_size",
       cat("global_batch_size = ", layout.global_batch, " is not a multiple of ", of_all_ranks),
       assignment("global_batch_size", nearest_multiples(of_all_ranks, layout.global_batch))});
}

std::string nearest_divisors(const char* key, int64_t of, int64_t wanted) {
  return assignment(key, nearest_values(divisors(of), wanted));
}

}  // namespace am::planner
