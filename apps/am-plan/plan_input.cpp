#include "plan_input.h"

#include <filesystem>
#include <iostream>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/cluster/implementation.h"
#include "am/config/model_names.h"
#include "am/frameworks/exchange.h"
#include "am/frameworks/framework_rules.h"
#include "am/job/job.h"
#include "am/term/printable.h"
#include "frameworks.h"

namespace am_plan {

bool concerns_only_the_job(const std::string& rule) {
  return am::starts_with(rule, "data.") || am::starts_with(rule, "scheduler.") ||
         am::starts_with(rule, "checkpoint.") || rule == "model.weights";
}

namespace {

// Returns "did you mean FILE?" with the path of a plan whose path is similar. Returns an empty text
// if no plan's path is similar, or if the file `path` exists.
std::string near_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(path, ignored)) return {};
  const fs::path wanted(path);
  std::vector<std::string> plans;
  for (const fs::path& folder : {wanted.parent_path(), fs::path("plans"), fs::path()}) {
    const fs::path here = folder.empty() ? fs::path(".") : folder;
    for (const auto& entry : fs::directory_iterator(here, ignored)) {
      if (entry.path().extension() != ".toml") continue;
      const fs::path shown = folder.empty() ? entry.path().filename() : entry.path();
      // A plan whose path differs only in the folder or extension is the best suggestion.
      if (entry.path().stem() == wanted.stem())
        return am::cat("did you mean ", shown.string(), "?");
      plans.push_back(shown.string());
    }
  }
  const auto near = am::nearest(path, plans);
  return near ? am::cat("did you mean ", *near, "?") : std::string();
}

// Adds an error about the file `path` to `found`. Removes the path from the beginning of the
// message, because the diagnostic's span already contains the path.
void report(const am::Error& error, const std::string& path, const std::string& help,
            am::Diagnostics& found) {
  std::string message = error.what();
  if (const std::string name = path + ": "; am::starts_with(message, name)) {
    message.erase(0, name.size());
  }
  found.error("plan.file", am::Span{path, 0, 0, 1, {}}, message, help);
}

// Returns the config of the model that the imported file names; nothing if this machine has no
// config of the model.
std::optional<am::model::ModelConfig> model_named_in(const am::frameworks::Imported& imported) {
  for (const am::frameworks::ModelName& name : imported.names) {
    const std::string last = am::lower(name.text.substr(name.text.rfind('/') + 1));
    for (const std::string& candidate : {name.text, last}) {
      const auto folder = am::config::find_model(candidate);
      am::Diagnostics ignored;
      if (folder) return am::model::load_config(*folder, ignored);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<am::rules::CheckedFile> check_framework_file(const std::string& path,
                                                           const PlanOptions& options,
                                                           am::Diagnostics& found) {
  const am::frameworks::Framework& framework = framework_of(options.from);
  std::optional<am::model::ModelConfig> model;
  if (!options.model.empty()) {
    model = load_named_model(options.model, found);
    if (!model) return std::nullopt;
  }
  std::string text;
  try {
    text = am::read_file(path);
  } catch (const am::Error& error) {
    report(error, path, error.hint(), found);
    return std::nullopt;
  }
  am::Diagnostics read;
  auto imported = am::frameworks::import_plan(framework, text, path, read, /*force=*/true,
                                              model ? &*model : nullptr);
  for (am::Diagnostic item : read.items()) {
    if (item.rule == "exchange.lost") item.severity = am::Severity::kNote;
    found.add(std::move(item));
  }
  if (!imported) return std::nullopt;
  if (model) am::frameworks::compare_model(*imported, *model, found);
  if (!model) model = model_named_in(*imported);
  if (!model) {
    found.add({"exchange.model", am::Severity::kNote, am::Span{path, 0, 0, 1, {}},
               "rules that need the model were not checked",
               "name its config.json, or a built-in model, with --model"});
  }
  am::rules::CheckedFile file{.plan = std::move(imported->plan), .checked = {}};
  if (const auto* rules = am::frameworks::find_framework_rules(options.from)) {
    am::frameworks::judge(*rules, *file.plan, model ? &*model : nullptr, options.world_size, found);
  } else {
    file.checked = am::rules::check_model(*file.plan, std::move(model), found, options.world_size);
  }
  found.sort();
  return file;
}

std::optional<am::rules::CheckedFile> check_plan(const std::string& path,
                                                 const PlanOptions& options,
                                                 am::Diagnostics& found) {
  try {
    if (const auto* dialect = am::frameworks::find_framework_rules(options.dialect)) {
      return am::frameworks::check_file_as(*dialect, path, options.overrides, options.world_size,
                                           found);
    }
    return am::rules::check_file(path, options.overrides, options.world_size, found,
                                 options.plugins);
  } catch (const am::Error& error) {
    report(error, path, error.hint().empty() ? near_file(path) : error.hint(), found);
    return std::nullopt;
  }
}

void check_limits_of_am_run(const am::rules::CheckedFile& file, const PlanOptions& options,
                            am::Diagnostics& found) {
  const bool other_rules = options.plan_only || !options.dialect.empty() || !options.from.empty();
  if (other_rules || !file.plan) return;
  if (file.plan->cluster.implementation != am::cluster::automesh_implementation().name) return;
  am::job::check_runs(file, found);
  found.sort();
}

am::Diagnostics check_plan_text(std::string_view text, const std::string& path) {
  am::Diagnostics found;
  try {
    check_limits_of_am_run(am::rules::check_text(text, path, found), {}, found);
  } catch (const am::Error& error) {
    report(error, path, error.hint(), found);
  }
  return found;
}

std::optional<PlanInput> load_input(const PlanOptions& options, const am_apps::Output& output,
                                    int& status) {
  am::Diagnostics found;
  auto file = check_plan(options.files.front(), options, found);
  am::Diagnostics fatal;
  am::Diagnostics others;
  int left_to_check = 0;
  for (const am::Diagnostic& item : found.items()) {
    if (item.severity != am::Severity::kError) {
      others.add(item);
    } else if (concerns_only_the_job(item.rule)) {
      ++left_to_check;
    } else {
      fatal.add(item);
    }
  }
  if (!fatal.ok() || !file || !file->checked.layout.has_value()) {
    status = am_apps::refuse(found, output);
    return std::nullopt;
  }
  am_apps::print_diagnostics(others, output);
  if (left_to_check > 0) {
    std::cerr << output.err.paint(am::term::Role::kNote, "note") << ": `am-plan check "
              << am::term::echo(options.files.front()) << "` reports " << left_to_check
              << (left_to_check == 1 ? " error" : " errors")
              << " that this answer does not depend on\n";
  }
  return PlanInput{*std::move(file->plan), *std::move(file->checked.model),
                   *std::move(file->checked.layout)};
}

std::optional<am::model::ModelConfig> load_named_model(const std::string& given,
                                                       am::Diagnostics& found) {
  try {
    return am::model::load_config(am::config::model_path(given), found);
  } catch (const am::Error& error) {
    if (!error.hint().empty()) throw;
    throw am::Error(error.kind(), error.what(), am::config::model_hint(given));
  }
}

std::string model_seen_from(const std::filesystem::path& plan, const std::string& model) {
  const bool named = am::config::model_path(model) != model;
  if (plan.empty() || named || std::filesystem::path(model).is_absolute()) return model;
  const auto folder = std::filesystem::absolute(plan).parent_path();
  return std::filesystem::absolute(model).lexically_relative(folder).lexically_normal().string();
}

void require_rank(const std::optional<int64_t>& rank, const am::layout::Layout& layout) {
  if (!rank.has_value() || *rank < layout.mesh.world_size()) return;
  throw am::Error(am::ErrorKind::kUsage, am::cat("--rank ", *rank, ": the plan has ranks 0 to ",
                                                 layout.mesh.world_size() - 1));
}

}  // namespace am_plan
