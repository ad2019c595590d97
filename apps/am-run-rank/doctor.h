// am-run doctor PLAN: is this machine fit for that plan?
#pragma once

namespace am_run {

// `argv` begins at "doctor". Prints a table, with --json one object. The exit status: 0 fit, 1 an
// error was found, 2 the command line or the plan cannot be read.
int run_doctor(int argc, char** argv);

}  // namespace am_run
