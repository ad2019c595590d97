// am-run doctor: checks this machine and the inputs of a job. am-run-rank opens all inputs. In an
// installation without libtorch, am-run itself opens the inputs that need no libtorch.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/launch/doctor/doctor.h"
#include "am/rules/check.h"
#include "job/options.h"

namespace am_run {

// The libtorch that ranks would load.
struct TorchFacts {
  std::string version;
  std::optional<am::Diagnostic> problem;  // why ranks cannot start
};

// Checks the plan's loggers, opens the job's inputs, and returns one result per check. Inputs that
// this program cannot open are skipped. `checked` has a layout. `checkpoints` is the folder with
// the job's checkpoints, one subfolder per saved step.
using ExamineInputs = std::function<std::vector<am::launch::Check>(
    const am::config::Plan& plan, const am::rules::CheckedPlan& checked,
    const std::filesystem::path& checkpoints)>;

// Prints the checks of the machine and of the inputs as a table, or as one object with --json.
// Returns the exit status: 0 if the machine can run the plan, 1 if an error was found, 2 if the
// plan cannot be read.
int examine_machine(Options options, const TorchFacts& torch, const ExamineInputs& examine_inputs);

// Runs `open` and returns the result as a check: ok with the text that `open` returns, or an error
// with the message of the exception that `open` throws.
am::launch::Check check_opens(const char* name, const std::function<std::string()>& open);
// Returns a check of the loggers named in metrics.loggers: a warning if a logger cannot run on this
// machine.
am::launch::Check check_loggers(const std::vector<std::string>& names);

}  // namespace am_run
