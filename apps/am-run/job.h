// Entry points of am-run: launch this machine's ranks of a plan, or of any program; write a plan;
// check this machine; write the file (a Slurm script or a JobSet) with which a cluster starts a
// plan's launchers; prepare and show the data of a plan; list and compare runs; describe am-run's
// command line to shells and to man. All functions that return int return the exit status.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/completions.h"
#include "job/options.h"

namespace am_run {

// Checks the plan, starts the ranks and reports how the job ended. Returns the exit status.
// `arguments` is the command line of am-run, which is passed on to the ranks.
int run_launcher(const Options& options, const std::vector<std::string>& arguments);
// Starts the program of --exec on every rank, without a plan, and reports how the job ended.
// Returns the exit status.
int run_program(const Options& options);
// Runs the program of --exec as one rank in a fake world of --nproc ranks, and prints the
// memory and the collectives of that rank. Returns the exit status.
int dry_run_program(const Options& options);
// am-run init --model NAME --gpus N: writes a plan. `argv` begins at "init".
int run_init(int argc, char** argv);
// am-run doctor PLAN: checks this machine and all that the job reads. `argv` begins at "doctor".
int run_doctor(int argc, char** argv);
// am-run files PLAN --slurm | --jobset: writes the file that starts a plan's launchers on a
// cluster. `argv` begins at "files". Prints the file, or writes it to the path of -o. Returns the
// exit status: 0 if written, 1 if the plan has errors, 2 if the command line is wrong, the plan
// cannot be read or the file cannot be written.
int run_files(int argc, char** argv);
// am-run prepare PLAN: tokenises the plan's text and conversations, and writes the tokens to
// data.prepared. `argv` begins at "prepare". Returns the exit status, as run_files() does.
int run_prepare(int argc, char** argv);
// am-run show-batch PLAN: prints rows of a step's batch. `argv` begins at "show-batch".
int run_show_batch(int argc, char** argv);
// am-run ls [FOLDER]: lists the runs in a folder. `argv` begins at "ls".
int run_list(int argc, char** argv);
// am-run compare RUN [OTHER]: compares a run with its prediction or with another run. `argv` begins
// at "compare".
int run_compare(int argc, char** argv);
// am-run completions SHELL: prints a script that completes am-run's command line.
int run_completions(int argc, char** argv);
// am-run man [COMMAND]: prints the manual page of am-run or of a command.
int run_man(int argc, char** argv);

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);  // argv[0] is the name of the command
};
std::span<const Command> commands();

// Describes am-run and its commands.
am_apps::CommandDescription describe_tool();
// Returns the words that complete the value of --fault (names of faults) or of --resume ("auto",
// "none", checkpoints and other paths).
am_apps::Words values_of(const am_apps::Asked& asked);

}  // namespace am_run
