#include <algorithm>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/planner/rules/catalogue.h"

namespace am::planner {
namespace {

std::vector<const Rule*> collect() {
  std::vector<const Rule*> all;
  for (const auto topic :
       {file_rules(), model_rules(), mesh_rules(), strategy_rules(), tp_rules(), pipeline_rules(),
        schedule_rules(), batch_rules(), training_rules(), cluster_rules(), runtime_rules()}) {
    for (const Rule& rule : topic) all.push_back(&rule);
  }
  return all;
}

// A config that cannot be read is a fault to those who ask for it alone, and a wrong `model.path`
// to a plan.
std::optional<model::ModelConfig> load_model(const config::Plan& plan, Diagnostics& found) {
  if (plan.model.path.empty()) return std::nullopt;  // "plan.required" has said so
  try {
    return model::load_config(plan.resolve(plan.model.path), found);
  } catch (const Error& error) {
    found.error("model.path", plan.span("model.path"), error.what(),
                "give a Hugging Face config.json or its folder; the path is relative to the plan");
    return std::nullopt;
  }
}

bool follows_from(const Diagnostic& item, const Diagnostics& loading) {
  const auto& errors = loading.items();
  return std::any_of(errors.begin(), errors.end(), [&](const Diagnostic& error) {
    return error.severity == Severity::kError && error.span.line > 0 &&
           error.span.file == item.span.file && error.span.line == item.span.line &&
           error.span.column == item.span.column;
  });
}

CheckedPlan check_loaded(const config::Plan& plan, std::optional<model::ModelConfig> model,
                         int64_t world_size, Diagnostics& found) {
  CheckedPlan checked;
  checked.model = std::move(model);
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
  auto model = load_model(plan, found);
  return check_loaded(plan, std::move(model), world_size, found);
}

CheckedPlan check_model(const config::Plan& plan, const model::ModelConfig& model,
                        Diagnostics& found) {
  return check_loaded(plan, model, 0, found);
}

CheckedFile check_file(const std::filesystem::path& file,
                       const std::vector<config::Override>& overrides, int64_t world_size,
                       Diagnostics& found) {
  CheckedFile out;
  Diagnostics loading;
  out.plan = config::load_draft(file, overrides, loading);
  Diagnostics ruled;
  if (out.plan.has_value()) out.checked = check(*out.plan, world_size, ruled);
  Diagnostics all = loading;
  for (const Diagnostic& item : ruled.items()) {
    if (!follows_from(item, loading)) all.add(item);
  }
  all.sort();
  found.append(all);
  return out;
}

}  // namespace am::planner
