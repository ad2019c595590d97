// am-plan rules: prints the catalogue of rules.
#include "am/base/json.h"
#include "am/frameworks/framework_rules.h"
#include "am/term/table.h"
#include "commands.h"
#include "options.h"

namespace am_plan {
namespace {

int run_rules(const Output& output) {
  am::Json list = am::Json::array();
  am::term::Table table({{"rule"}, {"what it requires", am::term::Align::kWrap}});
  for (const am::rules::Rule* rule : am::frameworks::every_rule()) {
    list.push_back({{"id", rule->id}, {"summary", rule->summary}});
    table.add({{std::string(rule->id), am::term::Role::kBold}, std::string(rule->summary)});
  }
  if (output.json) {
    am_apps::print(am::Json{{"rules", std::move(list)}});
  } else {
    am_apps::print(table.text(output.out) + "\n`am-plan explain RULE` explains a rule\n");
  }
  return am_apps::kFine;
}

Run declare_rules(CLI::App& command, SharedOptions& shared) {
  add_json(command, shared);
  return run_rules;
}

}  // namespace

const Command kRulesCommand = {
    .name = "rules",
    .summary = "List the rules that `check` applies",
    .example = "am-plan rules",
    .declare = declare_rules,
};

}  // namespace am_plan
