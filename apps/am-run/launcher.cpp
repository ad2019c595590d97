// The launcher: checks first, then starts this machine's ranks and stays to see how they end.
#include <iostream>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/own_checkpoints.h"
#include "am/launch/run_folder.h"
#include "am/term/caret.h"
#include "am/term/printable.h"
#include "am/train/setup.h"
#include "job.h"
#include "plan_file.h"
#include "supervise.h"

namespace am_run {

namespace {

using namespace am;

launch::JobSpec job_spec(const Options& options, const std::vector<std::string>& arguments,
                         int64_t world_size, const launch::RunFolder& run) {
  if (world_size % options.nnodes != 0) {
    throw Error(ErrorKind::kPlan, cat("the plan's ", world_size, " ranks cannot be shared by ",
                                      options.nnodes, " machines evenly"));
  }
  launch::JobSpec spec = node_spec(options, world_size / options.nnodes, run);
  spec.argv = {"/proc/self/exe"};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  return spec;
}

// A restart resumes from what this job has written, else as the plan says.
launch::RestartPolicy restart_policy(const std::filesystem::path& checkpoints) {
  launch::RestartPolicy policy;
  policy.newest_step = [own = launch::OwnCheckpoints(checkpoints)] { return own.newest(); };
  policy.resume = [checkpoints](launch::JobSpec& spec, std::optional<int64_t> step) {
    if (!step) return;
    spec.argv.push_back("--resume");
    spec.argv.push_back(checkpoints / launch::checkpoint_name(*step));
  };
  return policy;
}

}  // namespace

int run_launcher(const Options& options, const std::vector<std::string>& arguments) {
  Diagnostics found;
  const auto job = load_job_plan(options, options.nproc * options.nnodes, found);
  found.sort();
  am_apps::print_diagnostics(found, options.output);
  if (!job) {
    if (options.output.json) am_apps::print(am_apps::failure(found));
    std::cerr << "am-run: " << term::summary(found) << "; no rank was started\n";
    return am_apps::kInvalid;
  }
  const auto run = launch::RunFolder::create(run_folder(options));
  std::cerr << "run folder  " << term::echo(run.root().string()) << "\n";
  return supervise_and_report(options, job_spec(options, arguments, job->mesh.world_size(), run),
                              restart_policy(train::checkpoint_folder(job->plan, run)), run);
}

}  // namespace am_run
