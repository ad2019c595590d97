// am-run PLAN: launches the ranks of a plan on this machine, or is one of them under a launcher.
// am-run --exec PROGRAM: launches any program. am-run doctor PLAN: judges this machine.
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/map_guard.h"
#include "am/launch/environment.h"
#include "am/launch/signal_thread.h"
#include "am/runtime/torch_version.h"
#include "common/output.h"
#include "doctor.h"
#include "job.h"
#include "options.h"

int main(int argc, char** argv) {
  const am::launch::SignalThread signals;  // before libtorch makes threads
  std::signal(SIGPIPE, SIG_IGN);           // whoever reads our output may go, the job goes on
  std::signal(SIGXFSZ, SIG_IGN);           // a file that must not grow is an error with its name
  if (argc > 1 && std::string_view(argv[1]) == "doctor") {
    return am_run::run_doctor(argc - 1, argv + 1);
  }
  int status = 0;
  const auto options = am_run::parse_options(argc, argv, status);
  if (!options) return status;
  return am_apps::guarded("am-run", options->output, [&] {
    am::runtime::require_compiled_torch();
    if (options->dry_run) return am_run::run_dry(*options);
    if (options->exec()) return am_run::run_program(*options);
    am::Diagnostics found;
    const auto here = am::launch::detect_environment(am::launch::process_environment(), found);
    if (!found.ok()) {
      am_apps::refuse(found, options->output);
      return am_apps::kUnusable;
    }
    if (here) {
      am::guard_mapped_files();
      return am_run::run_rank(*options, *here);
    }
    return am_run::run_launcher(*options, std::vector<std::string>(argv + 1, argv + argc));
  });
}
