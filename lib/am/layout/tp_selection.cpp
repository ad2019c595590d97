// Implements select_tp_plan() (layout.h), which returns the TP plan that the strategy's `tp_plan`
// key selects.
#include <filesystem>
#include <utility>
#include <variant>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/shared_library.h"
#include "am/base/text.h"
#include "am/config/tp_table.h"
#include "am/layout/layout.h"
#include "am/layout/tp_plugin.h"
#include "am/model/family.h"

namespace am::layout {
namespace {

void add_rule(std::string pattern, const std::string& style, const Span& where, model::TpPlan& plan,
              Diagnostics& found) {
  const auto parsed = model::parse_tp_style(style);
  if (!parsed.has_value()) {
    found.error("tp.style", where, cat("\"", style, "\" is not a tensor-parallel style"),
                model::unknown_style_help(style));
    return;
  }
  plan.rules.push_back({std::move(pattern), *parsed, where});
}

std::optional<model::TpPlan> from_table(const std::vector<config::TpTableEntry>& table,
                                        const std::string& source, bool sequence_parallel,
                                        Diagnostics& found) {
  const int before = found.errors();
  model::TpPlan plan;
  plan.source = source;
  plan.sequence_parallel = sequence_parallel;
  for (const config::TpTableEntry& entry : table) {
    add_rule(entry.pattern, entry.style, entry.where, plan, found);
  }
  if (table.empty() || found.errors() > before) return std::nullopt;
  return plan;
}

std::optional<model::TpPlan> read_inline(const config::Plan& plan,
                                         const config::TpPlanSetting& setting,
                                         bool sequence_parallel, Diagnostics& found) {
  std::vector<config::TpTableEntry> table;
  for (const auto& [pattern, style] : setting.table) {
    const auto own = plan.spans.find(cat("strategy.tp_plan.", pattern));
    table.push_back(
        {pattern, style, own == plan.spans.end() ? plan.span("strategy.tp_plan") : own->second});
  }
  return from_table(table, plan.file, sequence_parallel, found);
}

std::optional<model::TpPlan> read_plugin(const config::Plan& plan, const std::string& name,
                                         const PluginName& plugin, bool sequence_parallel,
                                         Diagnostics& found) {
  const Span where = plan.span("strategy.tp_plan");
  if (plan.plugins == config::Plugins::kRefused) {
    found.error("tp.plugin", where,
                cat("\"", name, "\" is a plugin, which is loaded only if you allow it"),
                "add --allow-plugins (or AM_ALLOW_PLUGINS=1) if you trust the library, whose code "
                "then runs; or write a table or a .toml file");
    return std::nullopt;
  }
  try {
    const std::string text = call_tp_plugin(plan.resolve(plugin.library), plugin.symbol);
    return from_table(config::parse_tp_table(text, name, where, found), name, sequence_parallel,
                      found);
  } catch (const Error& error) {
    found.error("tp.plan", where, error.what(), error.hint());
    return std::nullopt;
  }
}

std::optional<model::TpPlan> read_named(const config::Plan& plan, const std::string& name,
                                        const model::ModelConfig& config, bool sequence_parallel,
                                        Diagnostics& found) {
  const Span where = plan.span("strategy.tp_plan");
  if (const auto plugin = parse_plugin_name(name)) {
    return read_plugin(plan, name, *plugin, sequence_parallel, found);
  }
  if (looks_like_path(name)) {
    const std::filesystem::path file = plan.resolve(name);
    return from_table(config::load_tp_table(file, where, found), file.string(), sequence_parallel,
                      found);
  }
  if (model::find_family(name) != nullptr) {
    model::TpPlan out = model::family_tp_plan(config, sequence_parallel);
    out.source = cat("registered plan ", name);
    return out;
  }
  const auto near = nearest(name, model::family_names());
  found.error("tp.plan", where, cat("no tensor-parallel plan is named \"", name, "\""),
              cat(near.has_value() ? cat("did you mean \"", *near, "\"? ") : std::string(),
                  "legal: \"auto\", a table, a .toml file, \"libmine.so:symbol\", or a registered "
                  "name: ",
                  join(model::family_names(), ", ")));
  return std::nullopt;
}

}  // namespace

std::optional<model::TpPlan> select_tp_plan(const config::Plan& plan,
                                            const model::ModelConfig& config, Diagnostics& found) {
  if (std::holds_alternative<config::DDPConfig>(plan.strategy)) {
    model::TpPlan none;
    none.source = "ddp has no tensor parallelism";
    return none;
  }
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  if (fsdp2 == nullptr) {
    return model::family_tp_plan(config, config::sequence_parallel(plan.strategy));
  }
  const config::TpPlanSetting& setting = fsdp2->tp_plan;
  if (setting.table.empty() && setting.text == "auto") {
    return model::family_tp_plan(config, fsdp2->sequence_parallel);
  }
  auto out = setting.table.empty()
                 ? read_named(plan, setting.text, config, fsdp2->sequence_parallel, found)
                 : read_inline(plan, setting, fsdp2->sequence_parallel, found);
  return out;
}

}  // namespace am::layout
