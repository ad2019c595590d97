// Loads and checks the plan of a command, with its model and layout.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "am/layout/layout.h"
#include "am/rules/check.h"
#include "common/output.h"
#include "options.h"

namespace am_plan {

struct PlanInput {
  am::config::Plan plan;
  am::model::ModelConfig model;
  am::layout::Layout layout;
};

// Checks the plan file by automesh's rules or, if options.dialect is set, by the rules of this
// framework, and adds the diagnostics to `found`. If the file cannot be read, adds a diagnostic of
// rule "plan.file" and returns nothing.
std::optional<am::rules::CheckedFile> check_plan(const std::string& path,
                                                 const PlanOptions& options,
                                                 am::Diagnostics& found);

// Checks the configuration file of the framework options.from by the framework's own rules or, if
// automesh does not know these, by automesh's rules for plans. Diagnostics have positions in the
// configuration file. Adds a note for each setting that a plan cannot express. Without
// options.model, uses the model that the file names, if this model is a built-in config or in the
// cache of the Hugging Face hub. Otherwise checks only the rules that need no model, and adds a
// note about the unchecked rules.
std::optional<am::rules::CheckedFile> check_framework_file(const std::string& path,
                                                           const PlanOptions& options,
                                                           am::Diagnostics& found);

// Adds an error for each of the plan's features that am-run does not support, and sorts `found`.
// Does nothing if the plan is not meant for am-run: if the plan names another implementation, or if
// `options` request another framework's rules or only a check of the layout.
void check_limits_of_am_run(const am::rules::CheckedFile& file, const PlanOptions& options,
                            am::Diagnostics& found);

// Checks the TOML text of a plan and returns the diagnostics that `am-plan check` would report if
// the file `path` contained this text. Does not read the file.
am::Diagnostics check_plan_text(std::string_view text, const std::string& path);

// Loads and checks the first plan of `options`. If the plan has an error that would make the
// command's result wrong, prints the errors, sets `status` to the exit status and returns nothing.
// Files that only a training job needs (data, weights, checkpoints) may be missing, because the
// plan may be meant for another machine. Prints warnings and notes to stderr.
std::optional<PlanInput> load_input(const PlanOptions& options, const am_apps::Output& output,
                                    int& status);

// Loads the config of the model that the command line names by a path or a name. Returns nothing
// after errors, which are added to `found`. If no model has this path or name, throws Error with
// the nearest name in its hint.
std::optional<am::model::ModelConfig> load_named_model(const std::string& given,
                                                       am::Diagnostics& found);

// Converts the value of --model, `model`, to the value of model.path for the plan file `plan`. A
// relative path on the command line refers to the working directory, but a relative path in a plan
// refers to the plan's folder. Returns an absolute path or a model's name unchanged; also returns
// `model` unchanged if `plan` is empty.
std::string model_seen_from(const std::filesystem::path& plan, const std::string& model);

// Throws Error(kUsage) if `rank` is set and not less than the layout's world size.
void require_rank(const std::optional<int64_t>& rank, const am::layout::Layout& layout);

// Whether the rule checks data, learning-rate schedules, checkpoints or weights, which only a
// training job needs: predictions of memory and time do not depend on them.
bool concerns_only_the_job(const std::string& rule);

}  // namespace am_plan
