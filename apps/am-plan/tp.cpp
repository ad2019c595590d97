// am-plan tp PLAN: prints the tensor-parallel plan, the modules that its lines match, and the
// parameters that are replicated over tp.
#include <algorithm>

#include "am/base/text.h"
#include "am/layout/layout.h"
#include "am/model/tp_plan.h"
#include "am/rules/check.h"
#include "am/term/table.h"
#include "commands.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

struct TpAnswer {
  am::model::TpPlan plan;
  am::model::Inventory inventory;
  am::model::ResolvedTpPlan resolved;
  int64_t tp = 1;
};

// A table row: parameters that are replicated over tp and whose names differ only in the numbers of
// the layer and the expert.
struct Replicated {
  std::string name;       // name of the parameters, with "*" for these numbers
  bool grad_sum = false;  // the gradient of each parameter must be summed over tp
};

std::vector<Replicated> replicated(const TpAnswer& answer) {
  std::vector<Replicated> out;
  for (size_t i = 0; i < answer.inventory.parameters.size(); ++i) {
    const am::model::TpParameter& tp = answer.resolved.parameters[i];
    if (tp.shard_dim.has_value()) continue;
    const am::model::ParameterSpec& parameter = answer.inventory.parameters[i];
    const std::string name = am::model::any_layer_name(parameter.name, parameter.layer);
    bool known = false;
    for (const Replicated& other : out) known = known || other.name == name;
    if (!known) out.push_back({name, tp.grad_sum_over_tp});
  }
  return out;
}

am::Json to_json(const TpAnswer& answer, const am::Diagnostics& found) {
  am::Json rules = am::Json::array();
  am::Json unmatched = am::Json::array();
  for (size_t i = 0; i < answer.plan.rules.size(); ++i) {
    const am::model::TpRule& rule = answer.plan.rules[i];
    rules.push_back({{"pattern", rule.pattern},
                     {"style", to_string(rule.style)},
                     {"modules", answer.resolved.matches[i]}});
    if (answer.resolved.matches[i].empty()) unmatched.push_back(rule.pattern);
  }
  am::Json rest = am::Json::array();
  for (const Replicated& parameter : replicated(answer)) {
    rest.push_back({{"name", parameter.name}, {"grad_sum_over_tp", parameter.grad_sum}});
  }
  am::Json json = am::Json::object();
  json["ok"] = found.ok();
  json["source"] = answer.plan.source;
  json["tp_size"] = answer.tp;
  json["sequence_parallel"] = answer.plan.sequence_parallel;
  json["rules"] = std::move(rules);
  json["unmatched"] = std::move(unmatched);
  json["replicated"] = std::move(rest);
  json["diagnostics"] = am::to_json(found);
  return json;
}

std::string matches_text(const std::vector<std::string>& modules) {
  if (modules.empty()) return "nothing";
  if (modules.size() == 1) return modules.front();
  return am::cat(modules.size(), " modules: ", modules.front(), " ...");
}

std::string report(const TpAnswer& answer, const am::term::Style& style) {
  std::string text = am::cat("TP plan of ", answer.plan.source, ", tp_size = ", answer.tp,
                             answer.plan.sequence_parallel ? ", sequence parallel" : "", "\n\n");
  if (answer.plan.rules.empty()) return text + "nothing is cut over tp\n";
  am::term::Table rules({{"pattern", am::term::Align::kWrap},
                         {"style", am::term::Align::kWrap},
                         {"matches", am::term::Align::kWrap}});
  for (size_t i = 0; i < answer.plan.rules.size(); ++i) {
    const auto& modules = answer.resolved.matches[i];
    const auto role = modules.empty() ? am::term::Role::kError : am::term::Role::kPlain;
    rules.add({answer.plan.rules[i].pattern,
               {to_string(answer.plan.rules[i].style), am::term::Role::kAccent},
               {matches_text(modules), role}});
  }
  am::term::Table rest(
      {{"replicated", am::term::Align::kWrap}, {"its gradient", am::term::Align::kWrap}});
  for (const Replicated& parameter : replicated(answer)) {
    rest.add({parameter.name, parameter.grad_sum ? "summed over tp" : "the same on every tp rank"});
  }
  return text + rules.text(style) + (rest.empty() ? std::string() : "\n" + rest.text(style));
}

// Adds a note that names the query norms and key norms whose gradients must be summed over tp. The
// note is useful because other tools omit this sum.
void note_head_norms(const TpAnswer& answer, const am::Span& where, am::Diagnostics& out) {
  if (answer.tp == 1) return;
  std::vector<std::string> names;
  for (size_t i = 0; i < answer.inventory.parameters.size(); ++i) {
    const am::model::ParameterSpec& parameter = answer.inventory.parameters[i];
    const bool head_norm = parameter.role == am::model::Role::kQueryNorm ||
                           parameter.role == am::model::Role::kKeyNorm;
    if (!head_norm || !answer.resolved.parameters[i].grad_sum_over_tp) continue;
    const std::string name = am::model::any_layer_name(parameter.name, parameter.layer);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  if (names.empty()) return;
  out.add({"tp.qk_norm", am::Severity::kNote, where,
           am::cat("each tensor-parallel rank normalises its own heads only: the gradients of ",
                   am::join(names, " and "), " are summed over tp"),
           ""});
}

// Returns the diagnostics of rules whose id begins with "tp.".
am::Diagnostics relevant(const am::Diagnostics& found) {
  am::Diagnostics out;
  for (const am::Diagnostic& item : found.items()) {
    if (am::starts_with(item.rule, "tp.")) out.add(item);
  }
  return out;
}

int run_tp(const PlanOptions& options, const Output& output) {
  am::Diagnostics found;
  const auto file = check_plan(options.files.front(), options, found);
  if (!file || !file->checked.model.has_value() || !file->checked.mesh.has_value()) {
    return am_apps::refuse(found, output);
  }
  am::Diagnostics selecting;
  auto plan = am::layout::select_tp_plan(*file->plan, *file->checked.model, selecting);
  if (!plan.has_value()) return am_apps::refuse(selecting, output);
  TpAnswer answer;
  answer.plan = *std::move(plan);
  answer.inventory = am::model::build_inventory(*file->checked.model);
  answer.tp = file->checked.mesh->tp;
  // A TP plan with errors is shown too, because the modules that each line matches help to find the
  // errors.
  am::Diagnostics ignored;
  answer.resolved = am::model::resolve_tp_plan(answer.plan, answer.inventory, {}, ignored);
  am::Diagnostics about = relevant(found);
  note_head_norms(answer, file->plan->span("mesh.tp_size"), about);
  if (output.json) {
    am_apps::print(to_json(answer, about));
  } else {
    am_apps::print_diagnostics(about, output);
    print_folded(report(answer, output.out), output.out);
  }
  return about.ok() ? am_apps::kFine : am_apps::kInvalid;
}

Run declare_tp(CLI::App& command, SharedOptions& shared) {
  add_plan(command, shared);
  return [&shared](const Output& output) { return run_tp(shared.plan, output); };
}

}  // namespace

const Command kTpCommand = {
    .name = "tp",
    .summary = "Show the tensor-parallel plan and what it matches",
    .example = "am-plan tp plan.toml --set 'strategy.tp_plan=\"my_tp.toml\"'",
    .declare = declare_tp,
};

}  // namespace am_plan
