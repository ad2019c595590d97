#include <algorithm>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/planner/rules/catalogue.h"
#include "am/planner/rules/dialects/dialect.h"

namespace am::planner {
namespace {

std::vector<const Rule*> collect() {
  std::vector<const Rule*> all;
  for (const auto topic :
       {file_rules(), model_rules(), mesh_rules(), strategy_rules(), megatron_fsdp_rules(),
        no_effect_rules(), expert_rules(), tp_rules(), pipeline_rules(), context_rules(),
        schedule_rules(), batch_rules(), lora_rules(), training_rules(), optimizer_rules(),
        cluster_rules(), runtime_rules()}) {
    for (const Rule& rule : topic) all.push_back(&rule);
  }
  for (const Dialect& dialect : dialects()) {
    for (const DialectRule& one : dialect.rules) all.push_back(&one.rule);
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

// What the loader finds and what `judge_plan` finds, in the file's order.
template <typename Judge>
CheckedFile check_draft(const std::filesystem::path& file,
                        const std::vector<config::Override>& overrides, const Judge& judge_plan,
                        Diagnostics& found) {
  CheckedFile out;
  Diagnostics loading;
  out.plan = config::load_draft(file, overrides, loading);
  Diagnostics ruled;
  if (out.plan.has_value()) out.checked = judge_plan(*out.plan, ruled);
  Diagnostics all = loading;
  for (const Diagnostic& item : ruled.items()) {
    if (!follows_from(item, loading)) all.add(item);
  }
  all.sort();
  found.append(all);
  return out;
}

CheckedPlan check_loaded(const config::Plan& plan, std::optional<model::ModelConfig> model,
                         int64_t world_size, Diagnostics& found) {
  CheckedPlan checked;
  checked.model = std::move(model);
  const MeshDraft draft = draft_mesh(plan, world_size, found);
  checked.mesh = draft.sizes;
  std::optional<Layout> smallest;  // what rules check when there is no mesh
  if (checked.model.has_value() && draft.axes.has_value()) {
    auto& layout = draft.sizes.has_value() ? checked.layout : smallest;
    layout = build_layout(plan, *checked.model, draft.sizes.value_or(*draft.axes), found);
  }
  const auto& layout = draft.sizes.has_value() ? checked.layout : smallest;
  const RuleContext context{
      .plan = plan,
      .model = checked.model.has_value() ? &*checked.model : nullptr,
      .axes = draft.axes.has_value() ? &*draft.axes : nullptr,
      .dp = draft.dp,
      .mesh = draft.sizes.has_value() ? &*draft.sizes : nullptr,
      .layout = layout.has_value() ? &*layout : nullptr,
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
                       Diagnostics& found, config::Plugins plugins) {
  return check_draft(
      file, overrides,
      [&](config::Plan& plan, Diagnostics& ruled) {
        plan.plugins = plugins;
        return check(plan, world_size, ruled);
      },
      found);
}

CheckedFile check_file_as(const Dialect& dialect, const std::filesystem::path& file,
                          const std::vector<config::Override>& overrides, int64_t world_size,
                          Diagnostics& found) {
  const auto judge_plan = [&](const config::Plan& plan, Diagnostics& ruled) {
    CheckedPlan checked;
    checked.model = load_model(plan, ruled);
    judge(dialect, plan, checked.model.has_value() ? &*checked.model : nullptr, world_size, ruled);
    return checked;
  };
  return check_draft(file, overrides, judge_plan, found);
}

}  // namespace am::planner
