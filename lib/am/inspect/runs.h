// The run folders that a session of am-repl can read without opening weights: their metrics and
// plans.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/inspect/command.h"
#include "am/run_folder/run_folder.h"

namespace am::inspect {

// Returns the run folder that a target belongs to: the folder itself, or the run of its
// checkpoints/ or of one of them; nothing if no metrics are there.
std::optional<run_folder::RunFolder> run_of(const std::filesystem::path& target);
// Returns a name for each run that differs from the others: the last parts of the folder's path.
std::vector<std::string> run_names(const Runs& runs);

// Returns whether a command line is `plot KEY ..` with the names of metrics. In a session with runs
// it then means `metrics | plot KEY ..`.
bool plots_metrics(const std::string& input);
// Returns whether the command line needs runs alone, and no tensors.
bool needs_only_runs(const std::string& input);

}  // namespace am::inspect
