#include <algorithm>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/config/model_names.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

std::vector<const Rule*> collect() {
  std::vector<const Rule*> all;
  for (const auto topic :
       {file_rules(), model_rules(), mesh_rules(), strategy_rules(), megatron_fsdp_rules(),
        megatron_rules(), no_effect_rules(), expert_rules(), tp_rules(), pipeline_rules(),
        context_rules(), schedule_rules(), batch_rules(), lora_rules(), data_rules(),
        training_rules(), optimizer_rules(), cluster_rules(), runtime_rules()}) {
    for (const Rule& rule : topic) all.push_back(&rule);
  }
  return all;
}

// Whether an error in `loading` has the same position in the file as `item`.
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
  const layout::MeshDraft draft = layout::draft_mesh(plan, world_size, found);
  checked.mesh = draft.sizes;
  // Layout on the smallest mesh with the plan's pp, cp and tp. Used only after an error in the mesh
  // sizes, for example if their product is not world_size.
  std::optional<layout::Layout> smallest;
  if (checked.model.has_value() && draft.axes.has_value()) {
    auto& layout = draft.sizes.has_value() ? checked.layout : smallest;
    layout = layout::build_layout(plan, *checked.model, draft.sizes.value_or(*draft.axes), found);
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
  for (const Rule* rule : all_rules()) {
    if (rule->check != nullptr) rule->check(context, found);
  }
  found.sort();
  return checked;
}

// Runs `judge` on `draft`, a plan that was read in spite of errors (`loading`). Adds to `found` the
// diagnostics of `loading`, and those diagnostics of `judge` that do not follow from an error of
// `loading`.
CheckedFile check_draft(const Judge& judge, std::optional<config::Plan> draft,
                        const Diagnostics& loading, Diagnostics& found) {
  CheckedFile out;
  out.plan = std::move(draft);
  Diagnostics ruled;
  if (out.plan.has_value()) out.checked = judge(*out.plan, ruled);
  Diagnostics all = loading;
  for (const Diagnostic& item : ruled.items()) {
    if (!follows_from(item, loading)) all.add(item);
  }
  all.sort();
  found.append(all);
  return out;
}

}  // namespace

std::optional<model::ModelConfig> load_model(const config::Plan& plan, Diagnostics& found) {
  if (plan.model.path.empty()) return std::nullopt;  // the rule "plan.required" reports this
  try {
    return model::load_config(plan.resolve(plan.model.path), found);
  } catch (const Error& error) {
    found.error("model.path", plan.span("model.path"), error.what(),
                cat(config::model_hint(plan.model.path), "; paths are relative to the plan"));
    return std::nullopt;
  }
}

std::span<const Rule* const> all_rules() {
  static const std::vector<const Rule*> all = collect();
  return all;
}

const Rule* find_rule(std::string_view id) {
  const auto all = all_rules();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Rule* rule) { return rule->id == id; });
  return found == all.end() ? nullptr : *found;
}

CheckedPlan check(const config::Plan& plan, int64_t world_size, Diagnostics& found) {
  auto model = load_model(plan, found);
  return check_loaded(plan, std::move(model), world_size, found);
}

CheckedPlan check_model(const config::Plan& plan, std::optional<model::ModelConfig> model,
                        Diagnostics& found, int64_t world_size) {
  return check_loaded(plan, std::move(model), world_size, found);
}

CheckedFile check_file_by(const Judge& judge, const std::filesystem::path& file,
                          const std::vector<config::Override>& overrides, Diagnostics& found) {
  Diagnostics loading;
  auto draft = config::load_draft(file, overrides, loading);
  return check_draft(judge, std::move(draft), loading, found);
}

CheckedFile check_file(const std::filesystem::path& file,
                       const std::vector<config::Override>& overrides, int64_t world_size,
                       Diagnostics& found, config::Plugins plugins) {
  const auto judge = [&](config::Plan& plan, Diagnostics& ruled) {
    plan.plugins = plugins;
    return check(plan, world_size, ruled);
  };
  return check_file_by(judge, file, overrides, found);
}

CheckedFile check_text(std::string_view text, const std::string& file, Diagnostics& found) {
  Diagnostics loading;
  auto draft = config::parse_draft(text, file, {}, loading);
  const auto judge = [](const config::Plan& plan, Diagnostics& ruled) {
    return check(plan, /*world_size=*/0, ruled);
  };
  return check_draft(judge, std::move(draft), loading, found);
}

}  // namespace am::rules
