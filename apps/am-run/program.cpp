// am-run --exec PROGRAM: any program on every rank, as torchrun starts it.
//
// The launcher's own launcher does not matter here: `srun --ntasks-per-node 1 am-run --nnodes ...
// --exec ...` is one am-run a machine, which starts the ranks.
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
  // As torchrun does. A plan's ranks choose for themselves (runtime/nccl_environment.h).
  constexpr const char* kErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
  if (!launch::process_environment()(kErrorHandling)) {
    spec.environment.emplace_back(kErrorHandling, "1");
  }
  launch::RestartPolicy policy;
  policy.any_failure = true;  // what its exit statuses mean is the program's own
  return supervise_and_report(options, spec, policy, run, run_folder::HeldFolder(run.root()));
}

}  // namespace am_run
