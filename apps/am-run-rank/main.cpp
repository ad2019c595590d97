// am-run-rank: runs the parts of am-run that need libtorch: one rank of a job, --dry-run,
// --verify-layout and `doctor`. It accepts am-run's command line, because am-run starts it with
// am-run's own arguments: once per rank of a job. If another launcher (torchrun, for example)
// started am-run as a rank, or for the other parts, am-run replaces its own process by am-run-rank.
//
//   am-run-rank --answer torch|cuda     prints one line of JSON about libtorch or CUDA, for am-run
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/launch/environment/environment.h"
#include "am/launch/environment/open_files.h"
#include "am/launch/supervise/signal_thread.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/torch_version.h"
#include "common/output.h"
#include "doctor_inputs.h"
#include "job/doctor.h"
#include "job/options.h"
#include "modes.h"

namespace am_run {

namespace {

using namespace am;

// Returns the versions of libtorch and NCCL, for --version.
std::string library_versions() {
  return cat(runtime::torch_version_text(), runtime::nccl_version_text());
}

Json answer(std::string_view question) {
  Json json = Json::object();
  if (question == "torch") {
    json["libraries"] = library_versions();
    try {
      runtime::require_compiled_torch();
    } catch (const Error& error) {
      json["problem"] = {{"what", error.what()}, {"help", error.hint()}};
    }
  } else if (const auto problem = runtime::why_no_cuda()) {
    json["problem"] = {{"what", problem->what}, {"help", problem->help}};
  }
  return json;
}

int run(const Options& options) {
  runtime::require_compiled_torch();
  if (options.dry_run) return run_dry(options);
  if (options.verify_layout) return run_verify(options);
  Diagnostics found;
  const auto here = launch::detect_environment(launch::process_environment(), found);
  if (!found.ok()) {
    am_apps::refuse(found, options.output);
    return am_apps::kUnusable;
  }
  if (!here) {
    throw Error(ErrorKind::kUsage, "no launcher has started this rank: RANK is not set",
                "start the job with am-run");
  }
  launch::raise_open_files(launch::open_files_of_rank(here->world_size));
  guard_mapped_files();
  return run_rank(options, *here);
}

// Runs `am-run doctor PLAN` and returns the exit status. `argv` begins at "doctor".
int run_doctor(int argc, char** argv) {
  int status = 0;
  const auto options = parse_doctor_options(argc, argv, status);
  if (!options) return status;
  return am_apps::guarded("am-run doctor", options->output, [&] {
    const std::string version = am::runtime::loaded_torch_version().value_or(AM_TORCH_VERSION);
    return examine_machine(*options, {.version = version, .problem = {}}, examine_inputs);
  });
}

}  // namespace

}  // namespace am_run

int main(int argc, char** argv) {
  const am::launch::SignalThread signals;  // created before libtorch creates threads
  std::signal(SIGPIPE, SIG_IGN);           // the job continues after the reader of its output ends
  std::signal(SIGXFSZ, SIG_IGN);           // a write beyond RLIMIT_FSIZE fails with an error
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--answer" && argc == 3) {
    // The answer is the last line of stdout. Libraries may have printed other lines before.
    std::puts(
        am_run::answer(argv[2]).dump(-1, ' ', true, am::Json::error_handler_t::replace).c_str());
    return 0;
  }
  if (first == "doctor") return am_run::run_doctor(argc - 1, argv + 1);
  int status = 0;
  const auto options = am_run::parse_options(argc, argv, &am_run::library_versions, status);
  if (!options) return status;
  return am_apps::guarded("am-run", options->output, [&] { return am_run::run(*options); });
}
