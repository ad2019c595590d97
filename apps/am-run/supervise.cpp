#include "supervise.h"

#include <iostream>
#include <string>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/observe/metrics.h"
#include "am/term/printable.h"
#include "rendezvous.h"

namespace am_run {

namespace {

using namespace am;

void say(const launch::JobEvent& event) {
  if (event.kind == launch::JobEventKind::kStopping) {
    std::cerr << "\nstopping after this step; once more to end at once\n";
  }
  if (event.kind == launch::JobEventKind::kKilling) std::cerr << "ending the ranks\n";
}

void report_failure(const Options& options, const launch::JobResult& result) {
  const std::string block = launch::describe(result);
  std::cerr << options.output.err.paint(term::Role::kError, term::printable_lines(block));
}

void say_restart(const Options& options, int64_t restart, std::optional<int64_t> step) {
  std::cerr << "restart " << restart << " of " << options.max_restarts;
  if (step) std::cerr << " from step " << *step;
  if (!step && !options.exec()) std::cerr << " from where the job began: no checkpoint of its own";
  std::cerr << std::endl;
}

std::optional<observe::StepMetrics> last_metrics(const launch::RunFolder& run) {
  if (!std::filesystem::exists(run.metrics_file())) return std::nullopt;
  const auto all = observe::read_metrics(run.metrics_file());
  return all.empty() ? std::nullopt : std::optional(all.back());
}

void print_result(const Options& options, const launch::JobResult& result,
                  const launch::RunFolder& run) {
  Json json = {{"ok", result.exit_status == 0}, {"exit_status", result.exit_status}};
  if (!options.exec()) {
    const auto last = last_metrics(run);
    json["steps"] = last ? Json(last->step) : Json();
    json["loss"] = last ? Json(last->loss) : Json();
  }
  json["restarts"] = result.restarts;
  json["cause"] = launch::cause_json(result);
  json["run_dir"] = run.root().string();
  am_apps::print(json);
}

}  // namespace

launch::JobSpec node_spec(const Options& options, int64_t ranks_per_node,
                          const launch::RunFolder& run) {
  launch::JobSpec spec;
  spec.nproc = ranks_per_node;
  spec.node_rank = options.node_rank;
  spec.num_nodes = options.nnodes;
  spec.log_folder = run.logs();
  return spec;
}

int supervise_and_report(const Options& options, launch::JobSpec spec, launch::RestartPolicy policy,
                         const launch::RunFolder& run) {
  const Rendezvous rendezvous(options, spec);
  launch::JobCallbacks callbacks;
  callbacks.output = [](std::string_view bytes) { std::cerr << bytes << std::flush; };
  callbacks.event = say;
  policy.max_restarts = options.max_restarts;
  policy.announce = [&](const launch::JobResult& failed, int64_t restart,
                        std::optional<int64_t> step) {
    report_failure(options, failed);
    say_restart(options, restart, step);
  };
  const auto result = launch::supervise_with_restarts(spec, policy, callbacks);
  if (result.exit_status != 0) report_failure(options, result);
  if (options.output.json) print_result(options, result, run);
  return result.exit_status;
}

}  // namespace am_run
