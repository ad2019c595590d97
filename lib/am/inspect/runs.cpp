#include "am/inspect/runs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "am/base/text.h"
#include "am/config/plan.h"
#include "am/inspect/words.h"
#include "am/observe/metric_series.h"
#include "am/observe/metrics.h"

namespace am::inspect {

namespace fs = std::filesystem;

std::optional<run_folder::RunFolder> run_of(const fs::path& target) {
  std::error_code ignored;
  fs::path folder = fs::weakly_canonical(target, ignored);
  if (ignored) return std::nullopt;
  // RUN is the target itself, or lies one level above the target RUN/checkpoints, or two levels
  // above the target RUN/checkpoints/step-N.
  for (int up = 0; up < 3 && !folder.empty(); ++up, folder = folder.parent_path()) {
    run_folder::RunFolder run(folder);
    if (fs::exists(run.metrics_file(), ignored)) return run;
  }
  return std::nullopt;
}

std::vector<std::string> run_names(const Runs& runs) {
  std::vector<fs::path> rest;
  std::vector<std::string> names;
  for (const auto& run : runs) {
    const fs::path whole = fs::absolute(run.root()).lexically_normal();
    names.push_back(whole.filename().string());
    rest.push_back(whole.parent_path());
  }
  const auto repeat = [&] {
    auto sorted = names;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  };
  const auto has_more = [&] {
    return std::any_of(rest.begin(), rest.end(),
                       [](const auto& p) { return p.has_relative_path(); });
  };
  while (repeat() && has_more()) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (!rest[i].has_relative_path()) continue;
      names[i] = cat(rest[i].filename().string(), "/", names[i]);
      rest[i] = rest[i].parent_path();
    }
  }
  return names;
}

std::vector<std::string> validation_keys(const run_folder::RunFolder& run) {
  std::vector<std::string> keys;
  std::error_code missing;
  if (!fs::exists(run.plan_file(), missing)) return keys;
  Diagnostics ignored;
  if (const auto plan = config::load_draft(run.plan_file(), {}, ignored)) {
    for (const auto& set : plan->validation.sets) {
      keys.push_back(cat(observe::kValidationPrefix, set.name));
    }
  }
  return keys;
}

std::vector<std::string> changing_metrics(const run_folder::RunFolder& run) {
  std::vector<std::string> keys = observe::metric_keys();
  for (std::string& key : validation_keys(run)) keys.push_back(std::move(key));
  for (const char* derived : {"time", "tokens_seen", "tokens_per_second_per_rank"}) {
    std::erase(keys, derived);
  }
  const auto series = observe::read_series(run.metrics_file(), keys);
  std::vector<std::string> changing;
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<double> values = series.values[i];
    std::erase_if(values, [](double value) { return !std::isfinite(value); });
    const auto other = [&](double value) { return value != values.front(); };
    if (std::any_of(values.begin(), values.end(), other)) changing.push_back(keys[i]);
  }
  return changing;
}

bool plots_metrics(const std::string& input) {
  const Command* command = command_of(input);
  if (command == nullptr || command->name != "plot") return false;
  try {
    const Arguments arguments = parse_command(input).arguments;
    const auto& keys = observe::metric_keys();
    return !arguments.words.empty() &&
           std::all_of(arguments.words.begin(), arguments.words.end(), [&](const auto& word) {
             return starts_with(word, observe::kValidationPrefix) ||
                    std::find(keys.begin(), keys.end(), word) != keys.end();
           });
  } catch (const Error&) {
    return false;
  }
}

bool needs_only_runs(const std::string& input) {
  const Command* command = command_of(input);
  if (command == nullptr) return false;
  return command->as<OfRuns>() != nullptr || command->name == "report" ||
         plots_metrics(split_pipes(input).front());
}

}  // namespace am::inspect
