// Rules on tensor parallelism. Those on the plan's text are reported while it is selected and
// resolved.
#include <array>
#include <numeric>

#include "am/base/text.h"
#include "am/planner/legal_values.h"
#include "am/planner/rules/catalogue.h"

namespace am::planner {
namespace {

// Whether the TP plan hands out whole heads. A plan that leaves attention alone may use any tp.
bool cuts_heads(const RuleContext& context) {
  if (context.layout == nullptr) return false;
  const Layout& layout = *context.layout;
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const bool query = ends_with(layout.parameters[i].name, ".self_attn.q_proj.weight");
    if (query && layout.tp.parameters[i].style == model::TpStyle::kColwise) return true;
  }
  return false;
}

// Sizes that divide both kinds of heads, and of those the ones that also divide the world.
std::string legal_tp(const RuleContext& context) {
  const mesh::MeshSizes& mesh = *context.mesh;
  const int64_t heads =
      std::gcd(context.model->num_attention_heads, context.model->num_key_value_heads);
  std::vector<int64_t> fitting;
  for (const int64_t tp : divisors(heads)) {
    if (mesh.world_size() % (tp * mesh.cp * mesh.pp) == 0) fitting.push_back(tp);
  }
  if (fitting.empty()) fitting = divisors(heads);
  return assignment("tp_size", nearest_values(fitting, mesh.tp));
}

void check_divides(const RuleContext& context, const char* rule, const char* key, int64_t heads,
                   Diagnostics& found) {
  if (heads % context.mesh->tp == 0) return;
  found.error(rule, context.plan.span("mesh.tp_size"),
              cat("tp_size = ", context.mesh->tp, " does not divide ", key, " = ", heads),
              legal_tp(context));
}

void check_heads(const RuleContext& context, Diagnostics& found) {
  if (context.mesh == nullptr || context.model == nullptr || !cuts_heads(context)) return;
  check_divides(context, "tp.heads", "num_attention_heads", context.model->num_attention_heads,
                found);
}

void check_kv_heads(const RuleContext& context, Diagnostics& found) {
  if (context.mesh == nullptr || context.model == nullptr || !cuts_heads(context)) return;
  check_divides(context, "tp.kv_heads", "num_key_value_heads", context.model->num_key_value_heads,
                found);
}

constexpr std::array<Rule, 7> kRules = {{
    {.id = "tp.heads",
     .summary = "tp_size divides num_attention_heads",
     .explain =
         "Attention is computed head by head, and a tensor-parallel rank computes some of the "
         "heads. q_proj is cut by rows into tp_size parts, and a part must hold whole heads.\n\n"
         "A plan of one's own that does not cut q_proj, k_proj and v_proj is free of this rule.",
     .check = check_heads},
    {.id = "tp.kv_heads",
     .summary = "tp_size divides num_key_value_heads",
     .explain =
         "With grouped-query attention there are fewer key/value heads than query heads, and each "
         "rank needs the key/value heads of its own query heads. They are handed out whole, so "
         "tp_size is limited by num_key_value_heads: 8 for Llama 3, 2 for Qwen2.5-0.5B.",
     .check = check_kv_heads},
    {.id = "tp.plan",
     .summary = "strategy.tp_plan names a tensor-parallel plan that can be read",
     .explain =
         "tp_plan takes \"auto\" (the family's own plan), an inline table of pattern = style, a "
         "TOML file with such a table (at its top level, or in a section [tp_plan]), a registered "
         "family's name, or \"libmine.so:symbol\": a C function without arguments that returns the "
         "table as TOML text.\n\nPaths are relative to the plan. `am-plan tp PLAN` shows the plan "
         "that is used, and what each line matches.",
     .check = nullptr},
    {.id = "tp.sequence",
     .summary = "sequence_parallel = true has an effect",
     .explain =
         "Sequence parallelism needs layers whose norms work on a part of the sequence and whose "
         "projections gather it. The plans of phi3, gpt2, falcon and the DeepSeeks leave attention "
         "whole on every tensor-parallel rank, which needs the whole sequence: there the key is "
         "ignored, and this warning says so.",
     .check = nullptr},
    {.id = "tp.pattern",
     .summary = "every pattern of a tensor-parallel plan matches a module",
     .explain =
         "A pattern is a module's full name, where `*` stands for one component: "
         "\"model.layers.*.mlp.up_proj\". A pattern that matches nothing is a slip, and the module "
         "that was meant would be replicated without a word: more memory, and no speed.\n\n"
         "When several patterns match a module, the last one counts.",
     .check = nullptr},
    {.id = "tp.style",
     .summary = "every style is known and fits its module",
     .explain =
         "Linear layers take colwise (weight cut by rows, output cut), rowwise (weight cut by "
         "columns, input cut, output summed), colwise_rep (output gathered) and rowwise_rep (whole "
         "input). An embedding takes rowwise_rep, also written embedding_rowwise: a slice of the "
         "vocabulary. Norms between layers take sequence_parallel; norms over heads (q_norm, "
         "k_norm) take replicated_with_grad_allreduce. A module without a style is replicated.",
     .check = nullptr},
    {.id = "tp.pair",
     .summary = "modules that feed each other are cut so that they fit",
     .explain =
         "q_proj, k_proj and v_proj are cut alike, and o_proj takes what they give: colwise, then "
         "rowwise. The same holds for gate_proj and up_proj before down_proj. One without the "
         "other "
         "would compute with a part of a tensor as if it were the whole.\n\n"
         "Gradients have the same trap. A replicated weight that acts on a part of the heads or of "
         "the sequence sees only a part of its gradient, which must be summed over tp; one that "
         "sees all of it must not be summed. With sequence_parallel = true every norm between "
         "layers takes \"sequence_parallel\".",
     .check = nullptr},
}};

}  // namespace

std::span<const Rule> tp_rules() { return kRules; }

}  // namespace am::planner
