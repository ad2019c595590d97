// am-plan check PLAN...: prints every rule that each plan violates, on stdout.
#include "am/rules/check.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "am/base/text.h"
#include "am/cluster/implementation.h"
#include "am/config/batch.h"
#include "am/frameworks/framework_rules.h"
#include "am/job/job.h"
#include "am/term/caret.h"
#include "am/term/finding_formats.h"
#include "am/term/printable.h"
#include "commands.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

struct Verdict {
  am::Diagnostics found;
  am::rules::CheckedFile file;
  std::vector<std::string> lacks;  // features of a valid plan that am-run cannot run
};

// Returns whether the plan is meant for am-run. Features that am-run cannot run are errors in this
// case.
bool is_for_am_run(const am::config::Plan& plan, const PlanOptions& options) {
  return !options.plan_only && options.dialect.empty() &&
         plan.cluster.implementation == am::cluster::automesh_implementation().name;
}

Verdict judge(const std::string& path, const PlanOptions& options) {
  Verdict verdict;
  auto file = check_plan(path, options, verdict.found);
  if (file) verdict.file = *std::move(file);
  const am::rules::CheckedPlan& checked = verdict.file.checked;
  if (verdict.found.ok() && verdict.file.plan && checked.mesh && checked.model) {
    verdict.lacks = what_am_run_lacks(*verdict.file.plan, &*checked.model);
  }
  if (verdict.file.plan && is_for_am_run(*verdict.file.plan, options)) {
    am::job::check_runs(verdict.file, verdict.found);
    verdict.found.sort();
  }
  return verdict;
}

std::string batch_text(const Verdict& verdict) {
  const am::config::Plan& plan = *verdict.file.plan;
  const int64_t sequences =
      am::config::batch_shape(plan, verdict.file.checked.mesh->dp()).sequences;
  return am::cat(sequences, sequences == 1 ? " sequence" : " sequences", " of ", plan.train.seq_len,
                 " tokens per step");
}

std::string summary_line(const std::string& path, const Verdict& verdict,
                         const std::string& dialect, const am::term::Style& style) {
  const bool ok = verdict.found.ok();
  const am::term::Role role = ok ? am::term::Role::kAccent : am::term::Role::kError;
  std::string line = style.unicode ? style.paint(role, ok ? "✓ " : "✗ ") : "";
  line += am::cat(am::term::echo(path), ": ");
  if (!ok || !verdict.found.empty()) line += am::term::summary(verdict.found);
  if (!ok) return line + "\n";
  if (verdict.found.empty()) line += "ok";
  if (!dialect.empty()) line += am::cat(" by the rules of ", dialect);
  const am::rules::CheckedPlan& checked = verdict.file.checked;
  if (checked.layout.has_value()) {
    line += am::cat("; ", model_text(*checked.model, checked.layout->inventory.total()), "; ",
                    mesh_text(*checked.mesh, style), "; ", batch_text(verdict));
  }
  line += "\n";
  if (!verdict.lacks.empty() && dialect.empty()) {
    line += am::cat("  this version of am-run does not run it: ",
                    am::term::echo(am::join(verdict.lacks, ", ")), "\n");
  }
  return line;
}

am::Json to_json(const std::string& path, const Verdict& verdict, const std::string& dialect) {
  am::Json json = am::Json::object();
  json["file"] = path;
  json["ok"] = verdict.found.ok();
  json["diagnostics"] = am::to_json(verdict.found);
  // "runs" is whether am-run can run the plan. With --dialect the key is absent, because only rules
  // of another framework are checked.
  if (dialect.empty()) json["runs"] = verdict.found.ok() && verdict.lacks.empty();
  if (!verdict.lacks.empty()) json["unsupported"] = verdict.lacks;
  return json;
}

struct CheckOptions {
  std::string format = "text";
};

// Returns the catalogue of rules as SARIF describes it.
std::vector<am::term::FindingRule> finding_rules() {
  std::vector<am::term::FindingRule> rules;
  for (const am::rules::Rule* rule : am::frameworks::every_rule()) {
    rules.push_back({rule->id, rule->summary, rule->explain});
  }
  return rules;
}

// Prints the findings about all plans in a format for other programs.
int run_for_program(const PlanOptions& options, const std::string& format) {
  std::vector<am::Diagnostics> found;
  int status = am_apps::kFine;
  for (const std::string& path : options.files) {
    found.push_back(judge(path, options).found);
    status = std::max(status, am_apps::status_of(found.back()));
  }
  if (format == "sarif") {
    am_apps::print(am::term::sarif(found, finding_rules(), AM_VERSION));
    return status;
  }
  for (const am::Diagnostics& each : found) {
    am_apps::print(format == "gcc" ? am::term::gcc_text(each) : am::term::github_text(each));
  }
  return status;
}

int run_check(const PlanOptions& options, const Output& output) {
  am::Json plans = am::Json::array();
  bool ok = true;
  int status = am_apps::kFine;
  for (const std::string& path : options.files) {
    const Verdict verdict = judge(path, options);
    ok = ok && verdict.found.ok();
    status = std::max(status, am_apps::status_of(verdict.found));
    if (output.json) {
      plans.push_back(to_json(path, verdict, options.dialect));
      continue;
    }
    // Findings are the result of a check, so they go to stdout; an unreadable plan is an error.
    if (am_apps::status_of(verdict.found) == am_apps::kUnusable) {
      am_apps::print_diagnostics(verdict.found, output);
    } else {
      am_apps::print(am::term::render(verdict.found, output.out));
    }
    print_folded(summary_line(path, verdict, options.dialect, output.out), output.out);
  }
  if (!output.json) return status;
  am::Json answer{{"ok", ok}, {"plans", std::move(plans)}};
  if (!options.dialect.empty()) answer["dialect"] = options.dialect;
  am_apps::print(answer);
  return status;
}

Run declare_check(CLI::App& command, SharedOptions& shared) {
  add_option(command, {"PLAN", "", "Plan files (TOML)", kRequired}, shared.plan.files);
  add_option(command,
             {.name = "--dialect",
              .value = "NAME",
              .help = "Check by this framework's own rules instead of automesh's",
              .choices = am::frameworks::rule_framework_names()},
             shared.plan.dialect);
  add_flag(command, "--plan-only",
           "Check only the layout: do not report what this version of am-run cannot run",
           shared.plan.plan_only);
  auto options = std::make_shared<CheckOptions>();
  add_option(command,
             {.name = "--format",
              .value = "FORMAT",
              .help = "Print findings for people (text), for programs (json, as --json; sarif), as "
                      "annotations of GitHub Actions (github), or one per line as gcc does (gcc)",
              .choices = {"text", "json", "sarif", "github", "gcc"}},
             options->format);
  add_overrides(command, shared);
  return [&shared, options](const Output& output) {
    if (options->format == "text" || options->format == "json") {
      Output chosen = output;
      chosen.json = output.json || options->format == "json";
      return run_check(shared.plan, chosen);
    }
    return run_for_program(shared.plan, options->format);
  };
}

}  // namespace

const Command kCheckCommand = {
    .name = "check",
    .summary = "Report every rule that a plan violates",
    .example = "am-plan check plan.toml --set mesh.tp_size=16",
    .declare = declare_check,
};

}  // namespace am_plan
