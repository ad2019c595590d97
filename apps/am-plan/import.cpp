// am-plan import FILE --from FRAMEWORK: writes a plan made from another framework's configuration.
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/frameworks/exchange.h"
#include "am/rules/check.h"
#include "am/term/printable.h"
#include "am/term/wrap.h"
#include "commands.h"
#include "frameworks.h"
#include "options.h"
#include "plan_input.h"

namespace am_plan {
namespace {

using am::frameworks::Framework;
using am::frameworks::Ignored;
using am::frameworks::Imported;

struct ImportOptions {
  std::string file;
  std::string framework;
  std::string model;   // value of --model; empty: model.path is taken from FILE, or is "."
  std::string output;  // file to write; empty: stdout
  bool force = false;  // write the plan even if settings of FILE are lost or rules are violated
};

// Returns a line for each reason why keys of the imported file were ignored, with these keys.
std::string ignored_table(const Imported& imported, const am::term::Style& style) {
  std::vector<std::string> reasons;
  std::map<std::string, std::vector<std::string>> keys;
  for (const Ignored& item : imported.ignored) {
    if (keys[item.why].empty()) reasons.push_back(item.why);
    keys[item.why].push_back(item.key);
  }
  std::string text;
  for (const std::string& why : reasons) {
    text += am::cat(style.paint(am::term::Role::kNote, "ignored"), ": ", why, ": ",
                    am::term::printable(am::join(keys[why], ", ")), "\n");
  }
  return am::term::fold(text, style);
}

am::Json to_json(const Imported& imported) {
  am::Json json = am::Json::object();
  json["plan"] = am::config::to_json(imported.plan);
  json["ignored"] = am_plan::to_json(imported.ignored);
  json["lost"] = am_plan::to_json(imported.lost);
  json["notes"] = imported.notes;
  return json;
}

void set_model(const ImportOptions& options, Imported& imported) {
  std::string& path = imported.plan.model.path;
  if (!options.model.empty()) {
    path = model_seen_from(options.output, options.model);
  } else if (path == ".") {
    imported.notes.emplace_back(
        "model.path is set to \".\", the plan's own folder: name the config.json or its folder "
        "with --model");
  } else {
    imported.notes.push_back(
        am::cat("model.path is taken from the file, \"", path,
                "\": if no config.json is there, name another folder with --model"));
  }
}

// Loads the model that --model names. Returns nothing without --model, or if the model's config has
// errors, which are added to `found`. If the model cannot be read, returns nothing and sets
// `problem`.
std::optional<am::model::ModelConfig> load_model(const ImportOptions& options, std::string& problem,
                                                 am::Diagnostics& found) {
  if (options.model.empty()) return std::nullopt;
  try {
    return load_named_model(options.model, found);
  } catch (const am::Error& error) {
    problem =
        am::cat("the model's sizes in the file were not compared with --model: ", error.what());
    return std::nullopt;
  }
}

// Adds to `found` the errors that `am-plan check` would report for the imported plan. With `force`,
// adds them as warnings, because the plan is then written nevertheless. Omits errors of the rule
// "mesh.world", because only the launcher determines the number of ranks, and errors of rules about
// files, because these may be on another machine. Without a model, checks only the rules that need
// no model.
void judge(const Imported& imported, const std::optional<am::model::ModelConfig>& model, bool force,
           am::Diagnostics& found) {
  am::Diagnostics judged;
  am::rules::check_model(imported.plan, model, judged);
  for (const am::Diagnostic& item : judged.items()) {
    const am::rules::Rule* rule = am::rules::find_rule(item.rule);
    const bool of_files = rule != nullptr && rule->needs == am::rules::Needs::kFiles;
    if (item.severity != am::Severity::kError || of_files || item.rule == "mesh.world") continue;
    am::Diagnostic error = item;
    if (force) error.severity = am::Severity::kWarning;
    found.add(std::move(error));
  }
}

int run_import(const ImportOptions& options, const Output& output) {
  const Framework& framework = framework_of(options.framework);
  am::Diagnostics found;
  std::string problem;
  const auto model = load_model(options, problem, found);
  auto imported =
      am::frameworks::import_plan(framework, am::read_file(options.file), options.file, found,
                                  options.force, model.has_value() ? &*model : nullptr);
  if (imported.has_value() && model.has_value()) {
    am::frameworks::compare_model(*imported, *model, found, options.force);
  }
  if (imported.has_value() && found.ok()) judge(*imported, model, options.force, found);
  if (!found.ok() || !imported.has_value()) return am_apps::refuse(found, output);
  if (!problem.empty()) imported->notes.push_back(problem);
  set_model(options, *imported);
  am_apps::print_diagnostics(found, output);
  if (!options.output.empty()) am::write_file_atomically(options.output, imported->toml());
  if (output.json) {
    am_apps::print(to_json(*imported));
    return am_apps::kFine;
  }
  if (options.output.empty()) am_apps::print_file(imported->toml());
  print_notes(imported->notes, output);
  std::cerr << ignored_table(*imported, output.err);
  return am_apps::kFine;
}

Run declare_import(CLI::App& command, SharedOptions& shared) {
  auto options = std::make_shared<ImportOptions>();
  add_option(command, {"FILE", "", "The configuration", kRequired}, options->file);
  add_framework(command, "--from", "The framework that the file is for", options->framework);
  add_option(
      command,
      {"--model", "CONFIG",
       "The plan's model.path: a Hugging Face config.json, its folder, or a model's name such as "
       "llama-3.1-8b"},
      options->model);
  add_force(command, shared,
            "Leave out settings that a plan cannot express, even if this changes the layout or the "
            "results of training; overwrite an existing file");
  add_output(command, shared, "Write the plan to this file", options->output);
  add_json(command, shared);
  return [options, &shared](const Output& output) {
    options->force = shared.force;
    return run_import(*options, output);
  };
}

}  // namespace

const Command kImportCommand = {
    .name = "import",
    .summary = "Make a plan from another framework's configuration",
    .example = "am-plan import train.yaml --from nemo-automodel --model models/llama-3.1-8b",
    .declare = declare_import,
};

}  // namespace am_plan
