// The launcher: checks the plan, starts this machine's ranks and supervises them until they end.
#include <algorithm>
#include <iostream>
#include <utility>

#include "am/base/error.h"
#include "am/base/host.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/backend.h"
#include "am/launch/doctor/memory_fit.h"
#include "am/layout/backend_choice.h"
#include "am/predict/memory/host_memory.h"
#include "am/run_folder/checkpoint_folder.h"
#include "am/run_folder/held_folder.h"
#include "am/run_folder/process_begin.h"
#include "am/run_folder/run_folder.h"
#include "am/run_folder/step_folders.h"
#include "am/term/caret.h"
#include "am/term/printable.h"
#include "job.h"
#include "job/locks.h"
#include "job/plan_file.h"
#include "starter/torch_programs.h"
#include "supervise.h"

namespace am_run {

namespace {

using namespace am;

launch::JobSpec job_spec(const Options& options, const std::filesystem::path& program,
                         const std::vector<std::string>& arguments, int64_t world_size,
                         const run_folder::RunFolder& run, const std::string& job_id) {
  if (world_size % options.nnodes != 0) {
    throw Error(ErrorKind::kPlan,
                cat("the plan's ", world_size, " ranks cannot be divided evenly among ",
                    options.nnodes, " machines"));
  }
  launch::JobSpec spec = node_spec(options, world_size / options.nnodes, run);
  spec.argv = {program};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.environment.emplace_back(kJobVariable, job_id);
  spec.environment.emplace_back(kBeganVariable, format_fixed(run_folder::own_process_began(), 3));
  return spec;
}

// Throws Error(kPlan) if the ranks of this machine need more memory than the machine has available.
// The message contains the required and the available bytes. Does nothing with --force. Does
// nothing for a plan whose backend is for GPUs, because only am-run doctor checks GPU memory.
void require_memory(const Options& options, const job::Job& job, const launch::MemoryInfo& memory) {
  if (options.force) return;
  const std::string backend = layout::backend_of(job.plan, &am_apps::why_no_cuda);
  if (config::parse_backend(backend).serves_gpus()) return;
  const int64_t here = std::max<int64_t>(1, job.layout.mesh.world_size() / options.nnodes);
  const predict::RankRange ranks{options.node_rank * here, here};
  const int64_t wanted = predict::training_bytes(job.plan, job.model, job.layout, ranks);
  const auto shortage = launch::memory_shortage(wanted, memory);
  if (!shortage) return;
  throw Error(ErrorKind::kPlan, cat("the job ", *shortage, "; no rank was started"),
              "am-plan memory lists the parts of the memory; --force starts the job nevertheless");
}

// Returns a policy that resumes a restarted job from the newest checkpoint that this job has
// written. Without a checkpoint of this job, the restarted job begins as checkpoint.resume
// specifies.
launch::RestartPolicy restart_policy(const std::filesystem::path& checkpoints,
                                     const std::string& job_id) {
  launch::RestartPolicy policy;
  policy.newest_step = [=] { return run_folder::newest_of_job(checkpoints, job_id); };
  policy.resume = [checkpoints](launch::JobSpec& spec, std::optional<int64_t> step) {
    if (!step) return;
    spec.argv.push_back("--resume");
    spec.argv.push_back(checkpoints / run_folder::checkpoint_name(*step));
  };
  return policy;
}

}  // namespace

int run_launcher(const Options& options, const std::vector<std::string>& arguments) {
  Diagnostics found;
  const auto job = open_job(options, options.nproc * options.nnodes, &am_apps::why_no_cuda, found);
  found.sort();
  am_apps::print_diagnostics(found, options.output);
  if (!job) {
    if (options.output.json) am_apps::print(am_apps::failure(found));
    std::cerr << "am-run: " << term::summary(found) << "; no rank was started\n";
    return am_apps::kInvalid;
  }
  const auto require_fit = [&] { require_memory(options, *job, launch::memory_of_machine()); };
  const auto program = am_apps::torch_program("am-run-rank");
  const bool alone = options.nnodes == 1;
  // On one node, memory is checked before any file is written. On several nodes, memory is checked
  // when all nodes are connected, so that a failure on one node is reported to all.
  if (alone) require_fit();
  const auto run = run_folder::RunFolder::create(run_root(options));
  const auto checkpoints = run_folder::checkpoint_folder(job->plan, run);
  run_folder::HeldFolder held(run.root());
  const std::string job_id = unique_id();
  std::vector<run_folder::RunLock> locks;
  launch::RestartPolicy policy = restart_policy(checkpoints, job_id);
  policy.before_start = [&] {
    if (!alone) require_fit();
    if (options.node_rank != 0) return;
    locks = take_locks(run, checkpoints, job_id);
    // take_locks() has just created the lock file. The run folder is opened again, so that `held`
    // also checks this file.
    held = run_folder::HeldFolder(run.root());
  };
  // If the run folder or its lock file was removed or replaced, the job is not restarted: its ranks
  // could write to the folder of another job.
  policy.possible = [&] {
    try {
      held.require();
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  std::cerr << "run folder  " << term::echo(run.root().string()) << "\n";
  if (options.max_restarts > 0 && job->plan.checkpoint.every == 0) {
    std::cerr << "note        checkpoint.every = 0 saves nothing before the end: a restart would "
                 "repeat all steps of this job\n";
  }
  return supervise_and_report(
      options, job_spec(options, program, arguments, job->layout.mesh.world_size(), run, job_id),
      std::move(policy), run, held);
}

}  // namespace am_run
