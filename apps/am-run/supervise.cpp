#include "supervise.h"

#include <unistd.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/launch/environment/nccl.h"
#include "am/launch/environment/open_files.h"
#include "am/launch/supervise/background_output.h"
#include "am/observe/status_line.h"
#include "am/run_folder/job_record.h"
#include "am/term/printable.h"
#include "job/locks.h"
#include "rendezvous.h"

namespace am_run {

namespace {

using namespace am;

// Prints the messages of the launcher and the output of rank 0 to stderr. A background thread
// writes the text, so a reader that pauses or closes the pipe does not stall the job. If the reader
// is too slow, text is missing on stderr, but rank 0's log contains all output of rank 0.
class Console {
 public:
  explicit Console(const Options& options) : options_(options) {
    // A program of --exec may draw a progress line of its own.
    if (term::can_redraw(STDERR_FILENO) && !options.exec()) {
      status_.emplace(options.output.err);
    }
  }

  void echo(std::string_view bytes);
  void event(const launch::JobEvent& event);
  void failure(const launch::JobResult& result);
  void restart(int64_t restart, std::optional<int64_t> step);
  void trouble(const std::string& message) { say(message + "\n"); }
  // Prints the job's goodput if the job was restarted or took at least a minute.
  void goodput(const run_folder::JobTime& time, int64_t restarts);
  // Ends the status line, and waits at most five seconds until all text has been written.
  void finish();

 private:
  // Prints the text, which must consist of complete lines.
  void say(const std::string& text);

  const Options& options_;
  std::mutex mutex_;  // protects status_, because the store's thread calls trouble()
  std::optional<observe::StatusLine> status_;  // only on a terminal
  launch::BackgroundOutput out_{STDERR_FILENO};
};

void Console::echo(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (!status_) return out_.pass_on(bytes);
  status_->set_width(term::terminal_width(STDERR_FILENO, options_.output.err.width));
  out_.pass_on(status_->pass(bytes));
}

void Console::say(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (!status_) return out_.write(text);
  out_.pass_on(status_->beside(term::printable_lines(text)));
}

void Console::finish() {
  const std::lock_guard lock(mutex_);
  if (status_) out_.pass_on(status_->finish());
  out_.flush(std::chrono::seconds(5));
}

void Console::event(const launch::JobEvent& event) {
  if (event.kind == launch::JobEventKind::kStopping) {
    say(cat(options_.exec() ? "\nthe ranks have been asked to end" : "\nstopping after this step",
            "; interrupt again to end the job at once\n"));
  }
  if (event.kind == launch::JobEventKind::kKilling) say("ending the ranks\n");
  if (event.kind == launch::JobEventKind::kRankSuspended) {
    say(cat("rank ", event.rank, " (pid ", event.pid,
            ") is suspended: the job waits for it; kill -CONT ", event.pid, " resumes it\n"));
  }
}

void Console::failure(const launch::JobResult& result) {
  say(options_.output.err.paint(term::Role::kError,
                                term::printable_lines(launch::describe(result), /*paint=*/false)));
}

void Console::restart(int64_t restart, std::optional<int64_t> step) {
  std::string line = cat("restart ", restart, " of ", options_.max_restarts);
  if (step) line += cat(" from step ", *step);
  if (!step && !options_.exec())
    line += " from the beginning of the job, which has saved no checkpoint";
  say(line + "\n");
}

void Console::goodput(const run_folder::JobTime& time, int64_t restarts) {
  constexpr double kLong = 60.0;
  if (restarts == 0 && time.total() < kLong) return;
  say(cat("goodput     ", run_folder::goodput_text(time), "\n"));
}

// Returns the job's id, or an empty string for a program of --exec.
std::string job_id(const launch::JobSpec& spec) {
  for (const auto& [name, value] : spec.environment) {
    if (name == kJobVariable) return value;
  }
  return {};
}

run_folder::JobOutcome outcome_of(const run_folder::HeldFolder& held, const std::string& job) {
  return run_folder::read_outcome(run_folder::RunFolder(held.anywhere()), job);
}

// Returns the launcher's exit status. For a plan's job that was stopped before its last step and
// did not fail, the exit status is options.stopped_status.
int exit_status(const Options& options, const launch::JobResult& result,
                const run_folder::HeldFolder& held, const std::string& job) {
  const bool may_be_stopped = result.exit_status == 0 && options.stopped_status != 0;
  if (!may_be_stopped || options.exec()) return result.exit_status;
  return outcome_of(held, job).stopped ? options.stopped_status : 0;
}

// Writes the record of a job that has ended: the cause of a failure, and how the job spent its time
// over all restarts. Returns this time; nothing if the job never began to train. On nodes without
// rank 0, writes and returns nothing.
std::optional<run_folder::JobTime> close_record(const launch::JobResult& result,
                                                const run_folder::HeldFolder& held,
                                                const std::string& job) {
  const run_folder::RunFolder run(held.anywhere());
  auto record = run_folder::read_record(run);
  if (!record || record->job.id != job) return std::nullopt;
  const bool began = record->time.until > 0.0;
  if (began) record->time.extend(run_folder::Phase::kStopping);
  if (result.exit_status != 0) {
    ++record->time.failures;
    record->cause = launch::cause_json(result);
  }
  // A full disk may have caused the failure. The record is therefore first overwritten in place,
  // which needs no free space. Errors are ignored: the job is over, and the record is only for
  // users.
  try {
    run_folder::write_record_in_place(run, *record);
  } catch (const std::exception&) {
    try {
      run_folder::write_record(run, *record);
    } catch (const std::exception&) {
    }
  }
  return began ? std::optional(record->time) : std::nullopt;
}

void print_result(const Options& options, const launch::JobResult& result, int status,
                  const run_folder::RunFolder& run, const run_folder::JobOutcome& outcome,
                  const std::optional<run_folder::JobTime>& time) {
  Json json = {{"ok", result.exit_status == 0}, {"exit_status", status}};
  if (!options.exec()) {
    json["steps"] = outcome.steps ? Json(*outcome.steps) : Json();
    json["trained_steps"] = outcome.trained_steps;
    json["loss"] = outcome.loss ? Json(*outcome.loss) : Json();
    json["stopped"] = outcome.stopped;
    json["time"] = time ? run_folder::to_json(*time) : Json();
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
  launch::LauncherFiles files = {.ranks_here = spec.nproc};
  if (spec.node_rank == 0) {
    files.ranks_served = options.exec() ? 0 : spec.num_nodes * spec.nproc;
    files.launchers_served = spec.num_nodes - 1;
    launch::require_open_files(files);  // checked before node 0 serves the store
  } else {
    policy.before_start = [files, then = std::move(policy.before_start)] {
      // Checked after the nodes have connected, so that an error is reported on all nodes.
      launch::require_open_files(files);
      if (then) then();
    };
  }
  Console console(options);
  const Rendezvous rendezvous(options, spec,
                              [&](const std::string& message) { console.trouble(message); });
  launch::JobCallbacks callbacks;
  callbacks.output = [&](std::string_view bytes) { console.echo(bytes); };
  callbacks.event = [&](const launch::JobEvent& event) { console.event(event); };
  policy.max_restarts = options.max_restarts;
  policy.announce = [&](const launch::JobResult& failed, int64_t restart,
                        std::optional<int64_t> step) {
    console.failure(failed);
    console.restart(restart, step);
  };
  const auto result = launch::supervise_with_restarts(spec, policy, callbacks);
  if (result.exit_status != 0) console.failure(result);
  const std::string job = job_id(spec);
  const auto time = options.exec() ? std::nullopt : close_record(result, held, job);
  if (time) console.goodput(*time, result.restarts);
  console.finish();
  const int status = exit_status(options, result, held, job);
  if (options.output.json) {
    print_result(options, result, status, run, outcome_of(held, job), time);
  }
  return status;
}

}  // namespace am_run
