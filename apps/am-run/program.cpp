// am-run --exec PROGRAM: runs any program on every rank, as torchrun does.
//
// The environment of an outer launcher is ignored: `srun --ntasks-per-node 1 am-run --nnodes ...
// --exec ...` is one am-run per machine, which starts the ranks.
#include <iostream>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/environment/environment.h"
#include "am/run_folder/held_folder.h"
#include "am/run_folder/run_folder.h"
#include "am/term/printable.h"
#include "job.h"
#include "job/plan_file.h"
#include "supervise.h"

namespace am_run {

using namespace am;

int run_program(const Options& options) {
  const auto run = run_folder::RunFolder::create(run_root(options));
  std::cerr << "run folder  " << term::echo(run.root().string()) << "\n";
  launch::JobSpec spec = node_spec(options, options.nproc > 0 ? options.nproc : 1, run);
  spec.argv = options.command;
  // torchrun's default. A plan's ranks choose their own (runtime/nccl_environment.h).
  constexpr const char* kErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
  if (!launch::process_environment()(kErrorHandling)) {
    spec.environment.emplace_back(kErrorHandling, "1");
  }
  launch::RestartPolicy policy;
  policy.any_failure = true;  // the program defines its own exit statuses
  return supervise_and_report(options, spec, policy, run, run_folder::HeldFolder(run.root()));
}

}  // namespace am_run
