#include "plan_input.h"

#include <filesystem>
#include <iostream>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/config/model_names.h"
#include "am/frameworks/framework_rules.h"
#include "am/term/printable.h"

namespace am_plan {

bool concerns_only_the_job(const std::string& rule) {
  return am::starts_with(rule, "data.") || am::starts_with(rule, "scheduler.") ||
         am::starts_with(rule, "checkpoint.") || rule == "model.weights";
}

namespace {

// Returns "did you mean FILE?" with a plan whose path is similar; empty if there is none.
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

}  // namespace

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
    const std::string help = error.hint().empty() ? near_file(path) : error.hint();
    // The diagnostic names the file already.
    std::string message = error.what();
    if (const std::string name = path + ": "; am::starts_with(message, name)) {
      message.erase(0, name.size());
    }
    found.error("plan.file", am::Span{path, 0, 0, 1, {}}, message, help);
    return std::nullopt;
  }
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
