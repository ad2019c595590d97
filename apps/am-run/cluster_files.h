// am-run files PLAN --slurm | --jobset: writes the file that starts a plan's launchers on a
// cluster.
#pragma once

namespace am_run {

// Prints the Slurm script or the JobSet, or writes it to the path of -o. `argv` begins at "files".
// Returns the exit status: 0 if written, 1 if the plan has errors, 2 if the command line is wrong.
int run_files(int argc, char** argv);

}  // namespace am_run
