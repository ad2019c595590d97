// am-plan explain RULE: prints why a rule exists and how to satisfy it.
#include <algorithm>
#include <memory>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/frameworks/framework_rules.h"
#include "commands.h"
#include "options.h"
#include "text.h"

namespace am_plan {
namespace {

int run_explain(const std::string& rule, const Output& output) {
  const am::rules::Rule* known = am::frameworks::find_any_rule(rule);
  if (known == nullptr) {
    std::vector<std::string> ids;
    for (const am::rules::Rule* other : am::frameworks::every_rule()) ids.emplace_back(other->id);
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

Run declare_explain(CLI::App& command, SharedOptions& shared) {
  auto rule = std::make_shared<std::string>();
  add_option(command, {"RULE", "", "A rule's id, as diagnostics print it", kRequired}, *rule);
  add_json(command, shared);
  return [rule](const Output& output) { return run_explain(*rule, output); };
}

}  // namespace

const Command kExplainCommand = {
    .name = "explain",
    .summary = "Explain a rule: why it exists, how to satisfy it",
    .example = "am-plan explain tp.heads",
    .declare = declare_explain,
};

}  // namespace am_plan
