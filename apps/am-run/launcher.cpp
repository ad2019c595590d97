// The launcher: checks first, then starts this machine's ranks and stays to see how they end.
#include <iostream>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/launch/local.h"
#include "am/launch/run_folder.h"
#include "am/observe/metrics.h"
#include "am/term/caret.h"
#include "job.h"
#include "plan_file.h"

namespace am_run {

namespace {

using namespace am;

void set_rendezvous(const Options& options, launch::JobSpec& spec) {
  if (options.rdzv.empty()) return;
  const size_t colon = options.rdzv.rfind(':');
  spec.master_addr = options.rdzv.substr(0, colon);
  spec.master_port = std::stoi(options.rdzv.substr(colon + 1));
}

launch::JobSpec job_spec(const Options& options, const std::vector<std::string>& arguments,
                         int64_t world_size, const launch::RunFolder& run) {
  if (world_size % options.nnodes != 0) {
    throw Error(ErrorKind::kPlan, cat("the plan's ", world_size, " ranks cannot be shared by ",
                                      options.nnodes, " machines evenly"));
  }
  launch::JobSpec spec;
  spec.argv = {"/proc/self/exe"};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.nproc = world_size / options.nnodes;
  spec.node_rank = options.node_rank;
  spec.num_nodes = options.nnodes;
  set_rendezvous(options, spec);
  spec.log_folder = run.logs();
  return spec;
}

void say(const launch::JobEvent& event) {
  if (event.kind == launch::JobEventKind::kStopping) {
    std::cerr << "\nstopping after this step; once more to end at once\n";
  }
  if (event.kind == launch::JobEventKind::kKilling) std::cerr << "ending the ranks\n";
}

std::optional<observe::StepMetrics> last_metrics(const launch::RunFolder& run) {
  if (!std::filesystem::exists(run.metrics_file())) return std::nullopt;
  const auto all = observe::read_metrics(run.metrics_file());
  return all.empty() ? std::nullopt : std::optional(all.back());
}

void print_result(const launch::JobResult& result, const launch::RunFolder& run) {
  const auto last = last_metrics(run);
  Json json = {{"ok", result.exit_status == 0}, {"exit_status", result.exit_status}};
  json["steps"] = last ? Json(last->step) : Json();
  json["loss"] = last ? Json(last->loss) : Json();
  json["run_dir"] = run.root().string();
  am_apps::print(json);
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
  std::cerr << "run folder  " << run.root().string() << "\n";
  launch::JobCallbacks callbacks;
  callbacks.output = [](std::string_view bytes) { std::cerr << bytes << std::flush; };
  callbacks.event = say;
  const auto result =
      launch::supervise(job_spec(options, arguments, job->mesh.world_size(), run), callbacks);
  if (result.exit_status != 0) {
    std::cerr << options.output.err.paint(term::Role::kError, launch::describe(result));
  }
  if (options.output.json) print_result(result, run);
  return result.exit_status;
}

}  // namespace am_run
