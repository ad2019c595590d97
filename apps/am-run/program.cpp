// am-run --exec PROGRAM: runs any program on every rank, as torchrun does.
//
// Variables of an outer launcher do not make this process a rank. For example, `srun
// --ntasks-per-node 1 am-run --nnodes ... --exec ...` runs one am-run per machine, and each starts
// the ranks of its machine.
#include <csignal>
#include <iostream>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/environment/environment.h"
#include "am/run_folder/held_folder.h"
#include "am/run_folder/run_folder.h"
#include "am/term/printable.h"
#include "job.h"
#include "job/plan_file.h"
#include "starter/torch_programs.h"
#include "supervise.h"

namespace am_run {

using namespace am;

namespace {

// Signal on which automesh/exec/sitecustomize.py lets Python write its stack.
int stack_signal() { return SIGRTMIN + 13; }

}  // namespace

int run_program(const Options& options) {
  const auto run = run_folder::RunFolder::create(run_root(options));
  std::cerr << "run folder  " << term::echo(run.root().string()) << "\n";
  launch::JobSpec spec = node_spec(options, options.nproc > 0 ? options.nproc : 1, run);
  spec.argv = options.command;
  // The program gets torchrun's default of this variable. The ranks of a plan set it themselves
  // (runtime/nccl_environment.h).
  constexpr const char* kErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
  if (!launch::process_environment()(kErrorHandling)) {
    spec.environment.emplace_back(kErrorHandling, "1");
  }
  // The run folder that automesh.live uses, and the folder from which Python imports automesh.
  spec.environment.emplace_back("AM_RUN_DIR", run.root().string());
  if (const auto python = am_apps::python_folder()) {
    std::string path = cat((*python / "automesh" / "exec").string(), ":", python->string());
    if (const auto before = launch::process_environment()("PYTHONPATH")) path += ":" + *before;
    spec.environment.emplace_back("PYTHONPATH", path);
  }
  spec.environment.emplace_back("PYTHONFAULTHANDLER", "1");
  spec.stack_signal = stack_signal();
  spec.environment.emplace_back("AM_STACK_SIGNAL", cat(spec.stack_signal));
  launch::RestartPolicy policy;
  // Only the program knows the meaning of its exit statuses, so any status but 0 restarts the job.
  policy.any_failure = true;
  return supervise_and_report(options, spec, policy, run, run_folder::HeldFolder(run.root()));
}

}  // namespace am_run
