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
// Returns a name for each run: the last component of the path of the run folder, preceded by
// further components of the path until all names differ.
std::vector<std::string> run_names(const Runs& runs);

// Returns "validation_loss/NAME" for each validation set of the run's plan.
std::vector<std::string> validation_keys(const run_folder::RunFolder& run);
// Returns the keys of the metrics that have at least two different finite values in the run. Omits
// the derived metrics "time", "tokens_seen" and "tokens_per_second_per_rank".
std::vector<std::string> changing_metrics(const run_folder::RunFolder& run);

// Returns whether a command line is `plot KEY ..` and every KEY is the name of a metric. In a
// session with run folders, this command line then has the result of `metrics | plot KEY ..`.
bool plots_metrics(const std::string& input);
// Returns whether the command line, for example `compare`, needs only run folders and no tensors.
bool needs_only_runs(const std::string& input);

}  // namespace am::inspect
