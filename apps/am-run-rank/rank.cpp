// One rank: joins the job, trains, and leaves word of its own error.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agreement.h"
#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/file.h"
#include "am/base/first_line.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/compat/distributed.h"
#include "am/compat/init_utils.h"
#include "am/launch/cause/rank_error.h"
#include "am/launch/environment/cores.h"
#include "am/launch/environment/nccl.h"
#include "am/launch/supervise/background_output.h"
#include "am/launch/supervise/stop_signal.h"
#include "am/live/host.h"
#include "am/observe/step_line.h"
#include "am/parallel/parallel_model.h"
#include "am/planner/memory.h"
#include "am/planner/memory_savings.h"
#include "am/planner/parameter_choice.h"
#include "am/run_folder/checkpoint_folder.h"
#include "am/run_folder/run_folder.h"
#include "am/runtime/device_error.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/nccl_environment.h"
#include "am/runtime/watchdog.h"
#include "am/tensor/block_cache.h"
#include "am/tensor/process_memory.h"
#include "am/term/printable.h"
#include "am/train/numerics.h"
#include "am/train/trainer.h"
#include "job/locks.h"
#include "job/plan_file.h"
#include "lives.h"
#include "one_voice.h"

namespace am_run {

namespace {

using namespace am;

std::string announcement(const planner::Job& job) {
  const mesh::MeshSizes& mesh = job.layout.mesh.sizes();
  std::string axes;
  for (const mesh::Axis axis : mesh::kAxes) {
    if (mesh.size(axis) > 1)
      axes += cat(axes.empty() ? "" : " x ", to_string(axis), " ", mesh.size(axis));
  }
  if (mesh.ep > 1) {
    axes +=
        cat(", experts over ep_shard ", job.layout.mesh.group_size("ep_shard"), " x ep ", mesh.ep);
  }
  int64_t all = 0;
  int64_t trained = 0;
  for (const auto& parameter : job.layout.inventory.parameters) {
    const int64_t elements = numel(parameter.shape);
    all += elements;
    if (!planner::is_frozen(job.plan, parameter.name)) trained += elements;
  }
  const auto short_count = [](int64_t n) { return format_short_count(static_cast<double>(n)); };
  return cat("model       ", term::echo(job.model.model_type), ", ", short_count(all),
             " parameters, ", trained == all ? "" : cat(short_count(trained), " of them trained, "),
             job.model.num_hidden_layers, " layers\nmesh        ", mesh.world_size(),
             mesh.world_size() == 1 ? " rank" : " ranks", axes.empty() ? "" : " = ", axes, ", ",
             config::strategy_name(job.plan.strategy), ", ", parallel::backend_of(job.plan), "\n");
}

// How long the end of a rank waits for whoever reads its last words.
constexpr auto kReaderPatience = std::chrono::seconds(5);

class Rank {
 public:
  Rank(const Options& options, const launch::RankEnvironment& here)
      : options_(options), here_(here) {}

  int train();
  // Leaves word of the error, for the launcher and for the ranks that wait for this one.
  int report(const std::exception& error);

 private:
  void join(const config::Plan& plan);
  launch::RankError describe(const std::exception& error) const;
  void add_memory(launch::RankError& told, c10::Device device) const;

  const Options& options_;
  const launch::RankEnvironment& here_;
  std::optional<planner::Job> job_;
  launch::BackgroundOutput out_{STDERR_FILENO};  // no reader of it may hold up the job
  bool silent_ = false;                          // rank 0 says the same
  compat::Distributed dist_{compat::Variables::process(),
                            [this](compat::LogLevel level, const std::string& message) {
                              if (level < compat::LogLevel::kWarning) return;
                              out_.write(term::printable_lines(cat("am-run: ", message, "\n")));
                            }};
  std::unique_ptr<runtime::Watchdog> watchdog_;
  std::unique_ptr<live::Host> host_;  // null: nobody attaches
};

// How long a rank waits for its peers.
std::chrono::milliseconds patience(const Options& options, const config::Plan& plan) {
  if (options.timeout_given) return std::chrono::seconds(options.timeout_seconds);
  const std::chrono::duration<double, std::ratio<60>> minutes(plan.runtime.timeout_minutes);
  return std::chrono::duration_cast<std::chrono::milliseconds>(minutes);
}

void Rank::join(const config::Plan& plan) {
  train::set_numerics(plan.train);
  if (options_.ranks_per_gpu > 0) {
    ::setenv(launch::kRanksPerGpuVariable, cat(options_.ranks_per_gpu).c_str(), 1);
  }
  runtime::set_nccl_defaults(run_folder::RunFolder(run_root(options_)).logs());
  compat::initialize_distributed(dist_, parallel::backend_of(plan), patience(options_, plan));
  runtime::WatchdogOptions watch;
  watch.on_stall = [this](const runtime::CollectiveError& error) {
    std::_Exit(report(error));  // the main thread does not return
  };
  watchdog_ = std::make_unique<runtime::Watchdog>(dist_.world(), std::move(watch));
  compare_plans(plan, dist_.world());
}

int Rank::train() {
  Diagnostics found;
  job_ = open_job(options_, here_.world_size, &runtime::why_no_cuda, found);
  const auto& job = job_;
  if (!job) {
    if (here_.rank == 0) am_apps::print_diagnostics(found, options_.output);
    silent_ = !speaks_for_all(here_);
    // Whichever rank the launcher sees first must say why: it may end the others at once.
    const auto is_error = [](const Diagnostic& one) { return one.severity == Severity::kError; };
    const auto first = std::find_if(found.items().begin(), found.items().end(), is_error);
    throw Error(ErrorKind::kPlan, cat("the plan is not valid: ", first->message), first->help);
  }
  const bool first = here_.rank == 0;
  if (const auto threads =
          launch::own_threads(here_, launch::process_environment(), launch::usable_cores())) {
    at::set_num_threads(static_cast<int>(*threads));
  }
  // Never destroyed: a signal that comes while the process ends must not make a failure of it.
  const launch::StopSignal& stop = *new launch::StopSignal;
  join(job->plan);
  const run_folder::RunFolder run(run_root(options_));
  const auto checkpoints = run_folder::checkpoint_folder(job->plan, run);
  const std::string launcher = launch::process_environment()(kJobVariable).value_or("");
  share_folders(run, checkpoints, /*made=*/!launcher.empty(), dist_.world());
  const auto identity = train::agree_on_job(dist_.world(), launcher);
  const auto locks = lock_folders(run, checkpoints, identity, dist_.world());
  if (first) out_.write(announcement(*job));
  std::optional<fault::Planted> planted;
  if (!options_.fault.empty()) {
    const fault::Fault mistake = fault::find(options_.fault).value();
    planted.emplace(mistake);
    if (first) {
      out_.write(cat("fault       ", options_.fault, ": ", fault::describe(mistake).what, "\n"));
    }
  }
  if (options_.attach) {
    live::HostOptions host;
    host.log = [this](const std::string& text) { out_.write(term::echo(text) + "\n"); };
    host.stop = &stop;
    host.tcp = options_.attach_at;
    host_ = std::make_unique<live::Host>(dist_.world(), run, std::move(host));
  }
  observe::StepLine line(job->plan.train.max_steps);
  const int64_t every = std::max<int64_t>(1, job->plan.metrics.every);
  train::TrainerCallbacks callbacks;
  callbacks.log = [this](const std::string& text) { out_.write(term::echo(text) + "\n"); };
  callbacks.step = [&](const observe::StepMetrics& metrics) {
    const std::string text = line.format(metrics);
    const bool last = metrics.step == job->plan.train.max_steps;
    if (metrics.step % every == 0 || metrics.step == 1 || last) out_.write(text + "\n");
    if (host_) host_->stepped(metrics);
  };
  if (host_) callbacks.phase = [this](const char* phase) { host_->phase_over(phase); };
  tensor::BlockCache::install();  // this process is ours alone, and steps repeat their sizes
  train::Trainer trainer(*job, dist_.world(), run, std::move(callbacks), {}, identity);
  if (first) write_own_file(run.plan_file(), config::to_toml(trainer.plan()));
  if (host_) host_->open(trainer);
  const train::TrainResult result = trainer.run(stop, host_.get());
  if (host_) {
    host_->close(
        cat("the job has ended ", result.stopped ? "as asked, " : "", "after step ", result.steps));
  }
  if (first && result.stopped) out_.write(cat("stopped at step ", result.steps, " as asked\n"));
  out_.flush(kReaderPatience);
  // Our own launcher says how the job ended.
  const bool alone = !launch::process_environment()(launch::kErrorFileVariable);
  return result.stopped && alone ? options_.stopped_status : 0;
}

launch::RankError Rank::describe(const std::exception& error) const {
  const c10::Device device = dist_.is_initialized() ? dist_.world().device() : at::kCPU;
  const auto* own = dynamic_cast<const Error*>(&error);
  const auto of_device = runtime::device_error(error, device);
  if (own == nullptr && of_device) own = &*of_device;
  const Error other(ErrorKind::kRuntime, first_line(error));
  launch::RankError told = launch::rank_error(own != nullptr ? *own : other, here_.rank);
  const auto* failed_device = dynamic_cast<const runtime::DeviceError*>(own);
  if (failed_device != nullptr && failed_device->out_of_memory() && job_) add_memory(told, device);
  if (dist_.is_initialized()) {
    told.step = dist_.world().progress().step();
    told.last_collective = dist_.world().progress().last_collective();
  }
  if (const auto* failed = dynamic_cast<const runtime::CollectiveError*>(&error)) {
    told.last_collective = failed->collective().name();
    told.missing = failed->missing();
    if (failed->timed_out()) told.kind = launch::kHangError;
  }
  if (const auto* absent = dynamic_cast<const runtime::MissingRanks*>(&error)) {
    told.missing = absent->missing();
    told.kind = launch::kHangError;
  }
  return told;
}

// Adds the bytes that the GPU's allocator gave out and took, those that am-plan predicted, and the
// keys that would need less.
void Rank::add_memory(launch::RankError& told, c10::Device device) const {
  const planner::RankMemory memory =
      planner::estimate_memory(job_->plan, job_->model, job_->layout, here_.rank);
  told.message +=
      cat("; allocated at most ", format_bytes(tensor::peak_memory_bytes(device)),
          ", reserved at most ", format_bytes(tensor::peak_reserved_bytes(device)), ", predicted ",
          format_bytes(memory.components.total()), ", in ", memory.moment);
  std::vector<std::string> savings;
  for (const auto& each : planner::memory_savings(*job_, here_.rank)) {
    savings.push_back(cat(each.key, " saves ", format_bytes(each.bytes)));
  }
  if (!savings.empty()) told.hint = am::join(savings, "; ");
}

int Rank::report(const std::exception& error) {
  const launch::RankError told = describe(error);
  const bool launcher_knows = launch::report_error(launch::process_environment(), told) &&
                              launch::process_environment()(launch::kErrorFileVariable).has_value();
  // Our own launcher prints what it is told. Under another one, or on a full disk, this is all
  // there is.
  if (!launcher_knows && !silent_) {
    out_.write(cat("am-run: rank ", here_.rank, ": ", term::echo_lines(told.message), "\n"));
    if (!told.hint.empty()) out_.write(cat("help: ", term::echo_lines(told.hint), "\n"));
  }
  if (host_) host_->close(cat("the job has failed: ", told.message));
  out_.flush(kReaderPatience);
  if (watchdog_ && told.kind != launch::kHangError && told.kind != launch::kPeerError) {
    dist_.world().progress().set_failed(told.message);
    watchdog_->publish();
  }
  return told.exit_status;
}

}  // namespace

int run_rank(const Options& options, const launch::RankEnvironment& here) {
  auto rank = std::make_unique<Rank>(options, here);
  try {
    return rank->train();
  } catch (const std::exception& error) {
    const int status = rank->report(error);
    // Connections with collectives under way close only when these time out: what is to be said is
    // said, so the process ends without them.
    std::_Exit(status);
  }
}

}  // namespace am_run
