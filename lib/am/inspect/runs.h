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

// Returns the run folder RUN of a target RUN, RUN/checkpoints or RUN/checkpoints/step-N; nullopt if
// RUN has no metrics.jsonl.
std::optional<run_folder::RunFolder> run_of(const std::filesystem::path& target);
// Returns a unique name for each run: the last components of its folder's path, as many as needed.
std::vector<std::string> run_names(const Runs& runs);

// Returns "validation_loss/NAME" for each validation set of the run's plan.
std::vector<std::string> validation_keys(const run_folder::RunFolder& run);
// Returns the keys of the metrics whose values change during the run. Omits metrics that follow
// from others, for example tokens_per_second_per_rank.
std::vector<std::string> changing_metrics(const run_folder::RunFolder& run);

// Returns whether a command line is `plot KEY ..` with the names of metrics. In a session with runs
// it then means `metrics | plot KEY ..`.
bool plots_metrics(const std::string& input);
// Returns whether the command line needs only run folders, and no tensors.
bool needs_only_runs(const std::string& input);

}  // namespace am::inspect
