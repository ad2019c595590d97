// Finds the role of this process in a job: one rank, or the launcher of a machine's ranks. Reads
// the command line, and the environment variables of the launcher that started this process.
#pragma once

#include <optional>

#include "am/base/diagnostic.h"
#include "am/launch/environment/environment.h"
#include "job/options.h"

namespace am_run {

// Returns the rank that another launcher assigned to this process by environment variables, or
// nothing if this process must start ranks itself. Variables named PET_* (torchrun's options)
// describe a machine of a job: this function then sets nproc, nnodes, node_rank and rdzv in
// `options`, and returns nothing. It ignores PET_* variables if the command line contains a
// placement flag, such as --nproc or --nnodes (options.placement is then not empty).
// Invalid variables, and options that contradict the variables, are errors of rule
// "launch.environment".
std::optional<am::launch::RankEnvironment> place_process(
    Options& options, const am::launch::EnvironmentLookup& lookup, am::Diagnostics& found);

}  // namespace am_run
