// am-run --exec PROGRAM: runs any program on every rank, as torchrun does.
//
// Environment variables of an outer launcher do not make this process a rank. For example, `srun
// --ntasks-per-node 1 am-run --nnodes ... --exec ...` starts one am-run per machine, and each
// am-run starts the ranks of its machine.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "am/base/child_process.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/python_folder.h"
#include "am/base/text.h"
#include "am/launch/environment/environment.h"
#include "am/launch/supervise/process.h"
#include "am/run_folder/held_folder.h"
#include "am/run_folder/run_folder.h"
#include "am/term/printable.h"
#include "job.h"
#include "job/dry_run_report.h"
#include "job/plan_file.h"
#include "starter/torch_programs.h"
#include "supervise.h"

namespace am_run {

using namespace am;

namespace {

// Signal on which Python writes the stacks of its threads (automesh/exec/sitecustomize.py).
int stack_signal() { return SIGRTMIN + 13; }

}  // namespace

int run_program(const Options& options) {
  const auto run = run_folder::RunFolder::create(run_root(options));
  std::cerr << "run folder  " << term::echo(run.root().string()) << "\n";
  launch::JobSpec spec = node_spec(options, options.nproc > 0 ? options.nproc : 1, run);
  spec.argv = options.command;
  // 1 is torchrun's default of this variable. The ranks of a plan use another default
  // (runtime/nccl_environment.h).
  constexpr const char* kErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
  if (!launch::process_environment()(kErrorHandling)) {
    spec.environment.emplace_back(kErrorHandling, "1");
  }
  // The Python module automesh.live uses the run folder of AM_RUN_DIR. PYTHONPATH contains the
  // folder of sitecustomize.py, which Python runs at its start, and the folder of the package
  // automesh.
  spec.environment.emplace_back("AM_RUN_DIR", run.root().string());
  if (const auto python = python_folder()) {
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

namespace {

// Path of the file to which the program writes its report. The destructor removes the file.
struct ReportFile {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / cat("am-dry-run-", ::getpid());
  ~ReportFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

}  // namespace

int dry_run_program(const Options& options) {
  const int64_t ranks = options.nproc > 0 ? options.nproc : 1;
  if (options.rank >= ranks) {
    throw Error(ErrorKind::kUsage,
                cat("--rank ", options.rank, ": --nproc ", ranks, " has ranks 0 to ", ranks - 1));
  }
  const ReportFile file;
  launch::ProcessSpec spec;
  spec.argv = options.command;
  spec.environment = {{"RANK", cat(options.rank)},
                      {"WORLD_SIZE", cat(ranks)},
                      {"LOCAL_RANK", cat(options.rank)},
                      {"LOCAL_WORLD_SIZE", cat(ranks)},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", "1"},
                      {launch::kDryRunVariable, file.path.string()},
                      // Hides warnings about tensors that were allocated before the dry run
                      // began to count memory.
                      {"TORCH_CPP_LOG_LEVEL", "ERROR"}};
  spec.output_fd = STDERR_FILENO;
  const int status = await_exit(launch::spawn(spec));
  if (status != 0) {
    throw Error(
        ErrorKind::kRuntime, cat("the program has failed: exit status ", status),
        "its output is above; a dry run starts one rank, and each collective returns what it "
        "would return if all ranks had this rank's tensors");
  }
  std::error_code missing;
  if (!std::filesystem::exists(file.path, missing)) {
    throw Error(ErrorKind::kRuntime, "the program has written no report",
                "a dry run needs a program that trains a module with parallel::ShardedModule");
  }
  Json report = Json::parse(read_file(file.path));
  if (options.output.json) {
    report["ok"] = true;
    am_apps::print(report);
  } else {
    am_apps::print(dry_run_text(report, options.output.out));
  }
  return am_apps::kFine;
}

}  // namespace am_run
