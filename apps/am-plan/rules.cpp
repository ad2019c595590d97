// am-plan rules, explain RULE, schema: the catalogue and the plan's description.
#include "am/planner/rules.h"

#include "am/base/text.h"
#include "am/config/schema.h"
#include "am/term/table.h"
#include "commands.h"
#include "text.h"

namespace am_plan {

int run_rules(const Output& output) {
  am::Json list = am::Json::array();
  am::term::Table table({{"rule"}, {"what it asks for", am::term::Align::kWrap}});
  for (const am::planner::Rule* rule : am::planner::rules()) {
    list.push_back({{"id", rule->id}, {"summary", rule->summary}});
    table.add({{std::string(rule->id), am::term::Role::kBold}, std::string(rule->summary)});
  }
  if (output.json) {
    am_apps::print(am::Json{{"rules", std::move(list)}});
  } else {
    am_apps::print(table.text(output.out) + "\n`am-plan explain RULE` tells why it exists\n");
  }
  return am_apps::kFine;
}

int run_explain(const std::string& rule, const Output& output) {
  const am::planner::Rule* known = am::planner::find_rule(rule);
  if (known == nullptr) {
    std::vector<std::string> ids;
    for (const am::planner::Rule* other : am::planner::rules()) ids.emplace_back(other->id);
    const auto near = am::nearest(rule, ids);
    throw am::Error(
        am::ErrorKind::kUsage, am::cat("no rule is named \"", rule, "\""),
        near.has_value() ? am::cat("did you mean ", *near, "?") : "`am-plan rules` lists them");
  }
  if (output.json) {
    am_apps::print(
        am::Json{{"id", known->id}, {"summary", known->summary}, {"explain", known->explain}});
    return am_apps::kFine;
  }
  const int width = std::min(output.out.width, 88);
  const std::string title = wrap(am::cat(known->id, ": ", known->summary), width);
  am_apps::print(am::cat(output.out.paint(am::term::Role::kBold, known->id),
                         title.substr(known->id.size()), "\n",
                         wrap(std::string(known->explain), width)));
  return am_apps::kFine;
}

int run_schema(bool markdown, const Output&) {
  if (markdown) {
    am_apps::print(am::config::plan_reference());
  } else {
    am_apps::print(am::config::schema_json());
  }
  return am_apps::kFine;
}

}  // namespace am_plan
