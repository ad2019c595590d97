#include "am/inspect/runs.h"

#include <algorithm>

#include "am/base/text.h"
#include "am/inspect/words.h"
#include "am/observe/metric_series.h"

namespace am::inspect {

namespace fs = std::filesystem;

std::optional<run_folder::RunFolder> run_of(const fs::path& target) {
  std::error_code ignored;
  fs::path folder = fs::weakly_canonical(target, ignored);
  if (ignored) return std::nullopt;
  // RUN, RUN/checkpoints and RUN/checkpoints/step-N.
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

bool plots_metrics(const std::string& input) {
  const Command* command = command_of(input);
  if (command == nullptr || command->name != "plot") return false;
  try {
    const Arguments arguments = parse_command(input).arguments;
    const auto& keys = observe::metric_keys();
    return !arguments.words.empty() &&
           std::all_of(arguments.words.begin(), arguments.words.end(), [&](const auto& word) {
             return std::find(keys.begin(), keys.end(), word) != keys.end();
           });
  } catch (const Error&) {
    return false;
  }
}

bool needs_only_runs(const std::string& input) {
  const Command* command = command_of(input);
  if (command == nullptr) return false;
  return command->as<OfRuns>() != nullptr || plots_metrics(split_pipes(input).front());
}

}  // namespace am::inspect
