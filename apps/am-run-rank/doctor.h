// am-run doctor PLAN: checks whether this machine can run the plan.
#pragma once

namespace am_run {

// `argv` begins at "doctor". Prints a table, or one object with --json. Returns the exit status: 0
// if the machine is fit, 1 if an error was found, 2 if the command line or the plan cannot be read.
int run_doctor(int argc, char** argv);

}  // namespace am_run
