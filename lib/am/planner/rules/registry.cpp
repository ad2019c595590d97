#include <algorithm>
#include <vector>

#include "am/base/error.h"
#include "am/planner/rules/catalogue.h"

namespace am::planner {
namespace {

std::vector<const Rule*> collect() {
  std::vector<const Rule*> all;
  for (const auto topic : {file_rules(), model_rules(), mesh_rules(), strategy_rules(), tp_rules(),
                           pipeline_rules(), batch_rules(), training_rules()}) {
    for (const Rule& rule : topic) all.push_back(&rule);
  }
  return all;
}

// A config that cannot be read is a fault to those who ask for it alone, and a wrong `model.path` to a plan.
std::optional<model::ModelConfig> load_model(const config::Plan& plan, Diagnostics& found) {
  try {
    return model::load_config(plan.resolve(plan.model.path), found);
  } catch (const Error& error) {
    found.error("model.path", plan.span("model.path"), error.what(),
                "give a Hugging Face config.json or its folder; the path is relative to the plan");
    return std::nullopt;
  }
}

}  // namespace

std::span<const Rule* const> rules() {
  static const std::vector<const Rule*> all = collect();
  return all;
}

const Rule* find_rule(std::string_view id) {
  const auto all = rules();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Rule* rule) { return rule->id == id; });
  return found == all.end() ? nullptr : *found;
}

CheckedPlan check(const config::Plan& plan, int64_t world_size, Diagnostics& found) {
  CheckedPlan checked;
  checked.model = load_model(plan, found);
  checked.mesh = resolve_mesh(plan, world_size, found);
  if (checked.model.has_value() && checked.mesh.has_value()) {
    checked.layout = build_layout(plan, *checked.model, *checked.mesh, found);
  }
  const RuleContext context{
      .plan = plan,
      .model = checked.model.has_value() ? &*checked.model : nullptr,
      .mesh = checked.mesh.has_value() ? &*checked.mesh : nullptr,
      .layout = checked.layout.has_value() ? &*checked.layout : nullptr,
  };
  for (const Rule* rule : rules()) {
    if (rule->check != nullptr) rule->check(context, found);
  }
  found.sort();
  return checked;
}

}  // namespace am::planner
