// am-plan check PLAN...: prints every rule that each plan violates, on stdout. With --from, the
// files are configurations of another framework.
#include "am/rules/check.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/config/batch.h"
#include "am/frameworks/framework_rules.h"
#include "am/term/caret.h"
#include "am/term/finding_formats.h"
#include "am/term/printable.h"
#include "commands.h"
#include "frameworks.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

struct Verdict {
  am::Diagnostics found;
  am::rules::CheckedFile file;
  // The plan's features that am-run does not support; empty if the plan is invalid.
  std::vector<std::string> lacks;
};

Verdict judge(const std::string& path, const PlanOptions& options) {
  Verdict verdict;
  auto file = options.from.empty() ? check_plan(path, options, verdict.found)
                                   : check_framework_file(path, options, verdict.found);
  if (file) verdict.file = *std::move(file);
  const am::rules::CheckedPlan& checked = verdict.file.checked;
  if (verdict.found.ok() && verdict.file.plan && checked.mesh && checked.model) {
    verdict.lacks = what_am_run_lacks(*verdict.file.plan, &*checked.model);
  }
  check_limits_of_am_run(verdict.file, options, verdict.found);
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

am::Json to_json(const std::string& path, const Verdict& verdict, const PlanOptions& options) {
  am::Json json = am::Json::object();
  json["file"] = path;
  json["ok"] = verdict.found.ok();
  json["diagnostics"] = am::to_json(verdict.found);
  // "runs" is whether am-run can run the plan. It is absent for files of other frameworks, and with
  // --dialect, which checks only the rules of another framework.
  if (!options.from.empty()) return json;
  if (options.dialect.empty()) json["runs"] = verdict.found.ok() && verdict.lacks.empty();
  if (!verdict.lacks.empty()) json["unsupported"] = verdict.lacks;
  return json;
}

struct CheckOptions {
  std::string format = "text";
};

// Returns the id, summary and explanation of every rule, which a SARIF report contains.
std::vector<am::term::FindingRule> finding_rules() {
  std::vector<am::term::FindingRule> rules;
  for (const am::rules::Rule* rule : am::frameworks::every_rule()) {
    rules.push_back({rule->id, rule->summary, rule->explain});
  }
  return rules;
}

// Checks all plans and prints their findings in `format`: "sarif", "gcc" or "github". Returns the
// exit status.
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
      plans.push_back(to_json(path, verdict, options));
      continue;
    }
    // Findings are the result of a check and are printed to stdout. If a plan cannot be read, the
    // error is printed to stderr.
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

// With --from, sets the dialect to the framework if automesh knows its rules. Throws Error(kUsage)
// for options that contradict each other.
void settle_framework(PlanOptions& options) {
  if (options.from.empty()) {
    if (options.model.empty()) return;
    throw am::Error(am::ErrorKind::kUsage, "--model is only for files of another framework",
                    "give --from FRAMEWORK, or set model.path in the plan");
  }
  const char* other = !options.dialect.empty()     ? "--dialect"
                      : !options.overrides.empty() ? "--set"
                      : options.plan_only          ? "--plan-only"
                                                   : nullptr;
  if (other != nullptr) {
    throw am::Error(
        am::ErrorKind::kUsage,
        am::cat(other, " works only with plans, but --from reads files of ", options.from),
        am::cat("am-plan import FILE --from ", options.from, " makes a plan"));
  }
  if (am::frameworks::find_framework_rules(options.from) != nullptr) options.dialect = options.from;
}

Run declare_check(CLI::App& command, SharedOptions& shared) {
  add_option(command,
             {"PLAN", "", "Plan files (TOML), or files of another framework (--from)", kRequired},
             shared.plan.files);
  add_framework(command, "--from",
                "Read the files as this framework's own configuration, and check them by its rules "
                "if automesh knows these",
                shared.plan.from, /*required=*/false);
  add_option(command,
             {"--model", "CONFIG",
              "With --from, the model: a Hugging Face config.json, its folder, or a name such as "
              "llama-3.1-8b"},
             shared.plan.model);
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
    settle_framework(shared.plan);
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
