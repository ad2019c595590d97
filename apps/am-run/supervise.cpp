#include "supervise.h"

#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/launch/environment/nccl.h"
#include "am/launch/supervise/background_output.h"
#include "am/run_folder/job_record.h"
#include "am/term/printable.h"
#include "job/locks.h"
#include "rendezvous.h"

namespace am_run {

namespace {

using namespace am;

// What the launcher and rank 0 say to people. A reader that pauses or goes must not hold up the
// job: the log has everything.
class Voice {
 public:
  explicit Voice(const Options& options) : options_(options) {}

  void echo(std::string_view bytes) { out_.pass_on(bytes); }
  void event(const launch::JobEvent& event);
  void failure(const launch::JobResult& result);
  void restart(int64_t restart, std::optional<int64_t> step);
  // What is said last should be read; whoever does not read for so long will not.
  void finish() { out_.flush(std::chrono::seconds(5)); }

 private:
  const Options& options_;
  launch::BackgroundOutput out_{STDERR_FILENO};
};

void Voice::event(const launch::JobEvent& event) {
  if (event.kind == launch::JobEventKind::kStopping) {
    out_.write("\nstopping after this step; once more to end at once\n");
  }
  if (event.kind == launch::JobEventKind::kKilling) out_.write("ending the ranks\n");
  if (event.kind == launch::JobEventKind::kRankSuspended) {
    out_.write(cat("rank ", event.rank, " (pid ", event.pid,
                   ") is suspended: the job waits for it; kill -CONT ", event.pid, "\n"));
  }
}

void Voice::failure(const launch::JobResult& result) {
  out_.write(options_.output.err.paint(
      term::Role::kError, term::printable_lines(launch::describe(result), /*paint=*/false)));
}

void Voice::restart(int64_t restart, std::optional<int64_t> step) {
  std::string line = cat("restart ", restart, " of ", options_.max_restarts);
  if (step) line += cat(" from step ", *step);
  if (!step && !options_.exec()) line += " from where the job began: no checkpoint of its own";
  out_.write(line + "\n");
}

// Nothing of a program's.
std::string job_id(const launch::JobSpec& spec) {
  for (const auto& [name, value] : spec.environment) {
    if (name == kJobVariable) return value;
  }
  return {};
}

run_folder::JobOutcome outcome_of(const run_folder::HeldFolder& held, const std::string& job) {
  return run_folder::read_outcome(run_folder::RunFolder(held.anywhere()), job);
}

// A job that was stopped in time has not failed; who started it may want to tell it from one that
// has finished.
int exit_status(const Options& options, const launch::JobResult& result,
                const run_folder::HeldFolder& held, const std::string& job) {
  const bool may_be_stopped = result.exit_status == 0 && options.stopped_status != 0;
  if (!may_be_stopped || options.exec()) return result.exit_status;
  return outcome_of(held, job).stopped ? options.stopped_status : 0;
}

void print_result(const Options& options, const launch::JobResult& result, int status,
                  const run_folder::RunFolder& run, const run_folder::HeldFolder& held,
                  const std::string& job) {
  Json json = {{"ok", result.exit_status == 0}, {"exit_status", status}};
  if (!options.exec()) {
    const run_folder::JobOutcome outcome = outcome_of(held, job);
    json["steps"] = outcome.steps ? Json(*outcome.steps) : Json();
    json["trained_steps"] = outcome.trained_steps;
    json["loss"] = outcome.loss ? Json(*outcome.loss) : Json();
    json["stopped"] = outcome.stopped;
  }
  json["restarts"] = result.restarts;
  json["cause"] = launch::cause_json(result);
  json["run_dir"] = run.root().string();
  am_apps::print(json);
}

}  // namespace

launch::JobSpec node_spec(const Options& options, int64_t ranks_per_node,
                          const run_folder::RunFolder& run) {
  launch::JobSpec spec;
  spec.nproc = ranks_per_node;
  spec.node_rank = options.node_rank;
  spec.num_nodes = options.nnodes;
  spec.log_folder = run.logs();
  if (options.ranks_per_gpu > 0) {
    spec.environment.emplace_back(launch::kRanksPerGpuVariable, cat(options.ranks_per_gpu));
  }
  return spec;
}

int supervise_and_report(const Options& options, launch::JobSpec spec, launch::RestartPolicy policy,
                         const run_folder::RunFolder& run, const run_folder::HeldFolder& held) {
  const Rendezvous rendezvous(options, spec);
  Voice voice(options);
  launch::JobCallbacks callbacks;
  callbacks.output = [&](std::string_view bytes) { voice.echo(bytes); };
  callbacks.event = [&](const launch::JobEvent& event) { voice.event(event); };
  policy.max_restarts = options.max_restarts;
  policy.announce = [&](const launch::JobResult& failed, int64_t restart,
                        std::optional<int64_t> step) {
    voice.failure(failed);
    voice.restart(restart, step);
  };
  const auto result = launch::supervise_with_restarts(spec, policy, callbacks);
  if (result.exit_status != 0) voice.failure(result);
  voice.finish();
  const int status = exit_status(options, result, held, job_id(spec));
  if (options.output.json) print_result(options, result, status, run, held, job_id(spec));
  return status;
}

}  // namespace am_run
