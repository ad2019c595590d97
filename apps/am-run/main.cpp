// am-run PLAN launches the ranks of a plan on this machine; am-run --exec PROGRAM launches any
// program; am-run init writes a plan; am-run doctor PLAN checks this machine; am-run files PLAN
// writes the file that starts the launchers on a cluster; am-run prepare PLAN tokenises the plan's
// data; am-run show-batch PLAN prints rows of a batch; am-run ls lists runs; am-run compare
// compares runs; am-run completions and am-run man describe the tool. am-run does not link
// libtorch, so that it answers immediately; am-run-rank contains the parts that need libtorch
// (starter/torch_programs.h).
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "am/launch/environment/environment.h"
#include "am/launch/supervise/signal_thread.h"
#include "common/output.h"
#include "job.h"
#include "job/options.h"
#include "job/placement.h"
#include "starter/torch_programs.h"

namespace am_run {

namespace {

using namespace am;

int run(Options& options, int argc, char** argv) {
  if (options.dry_run && options.exec()) return dry_run_program(options);
  if (options.dry_run || options.verify_layout) am_apps::become_torch_program("am-run-rank", argv);
  if (options.exec()) {
    const launch::SignalThread signals;
    return run_program(options);
  }
  Diagnostics found;
  const auto here = place_process(options, launch::process_environment(), found);
  if (!found.ok()) {
    am_apps::refuse(found, options.output);
    return am_apps::kUnusable;
  }
  if (here) am_apps::become_torch_program("am-run-rank", argv);
  am_apps::require_compiled_torch();
  const launch::SignalThread signals;
  return run_launcher(options, std::vector<std::string>(argv + 1, argv + argc));
}

}  // namespace

}  // namespace am_run

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // the job continues if nobody reads its output any more
  std::signal(SIGXFSZ, SIG_IGN);  // a write past RLIMIT_FSIZE only returns an error
  if (const auto answered =
          am_apps::answer_shell(argc, argv, am_run::describe_tool, am_run::values_of)) {
    return *answered;
  }
  for (const am_run::Command& command : am_run::commands()) {
    if (argc > 1 && std::string_view(argv[1]) == command.name) {
      return command.run(argc - 1, argv + 1);
    }
  }
  int status = 0;
  auto options = am_run::parse_options(argc, argv, &am_apps::library_versions, status);
  if (!options) return status;
  return am_apps::guarded("am-run", options->output,
                          [&] { return am_run::run(*options, argc, argv); });
}
