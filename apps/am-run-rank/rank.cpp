// Runs one rank: joins the job, trains, and reports an error if this rank fails.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agreement.h"
#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/file.h"
#include "am/base/first_line.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/launch/cause/rank_error.h"
#include "am/launch/environment/cores.h"
#include "am/launch/environment/nccl.h"
#include "am/launch/supervise/background_output.h"
#include "am/launch/supervise/stop_signal.h"
#include "am/layout/parameter_choice.h"
#include "am/live/attach_server.h"
#include "am/live/attached_model.h"
#include "am/observe/step_line.h"
#include "am/parallel/parallel_model.h"
#include "am/predict/memory/memory.h"
#include "am/predict/memory/memory_savings.h"
#include "am/run_folder/checkpoint_folder.h"
#include "am/run_folder/run_folder.h"
#include "am/runtime/device_error.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/nccl_environment.h"
#include "am/runtime/store.h"
#include "am/runtime/watchdog.h"
#include "am/tensor/block_cache.h"
#include "am/tensor/process_memory.h"
#include "am/term/printable.h"
#include "am/train/numerics.h"
#include "am/train/trainer.h"
#include "job/locks.h"
#include "job/plan_file.h"
#include "modes.h"

namespace am_run {

namespace {

using namespace am;

std::string announcement(const job::Job& job) {
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
    if (!layout::is_frozen(job.plan, parameter.name)) trained += elements;
  }
  const auto short_count = [](int64_t n) { return format_short_count(static_cast<double>(n)); };
  return cat("model       ", term::echo(job.model.model_type), ", ", short_count(all),
             " parameters, ", trained == all ? "" : cat(short_count(trained), " of them trained, "),
             job.model.num_hidden_layers, " layers\nmesh        ", mesh.world_size(),
             mesh.world_size() == 1 ? " rank" : " ranks", axes.empty() ? "" : " = ", axes, ", ",
             config::strategy_name(job.plan.strategy), ", ", parallel::backend_of(job.plan), "\n");
}

// Returns whether this rank must print its error about an invalid plan. Rank 0 always prints its
// error. Another rank prints its error only if rank 0 has not reported an invalid plan: a job of
// 1,024 ranks thus prints the error once. Must be called before the rank joins the job. Returns
// after a few seconds even if other ranks do not call this function.
bool prints_for_all(const launch::RankEnvironment& here) {
  if (here.world_size == 1) return true;
  constexpr auto kPatience = std::chrono::seconds(5);
  const std::string invalid = "plan/invalid";
  const std::string heard = "plan/heard";
  try {
    const auto store = runtime::connect_store(here, kPatience);
    if (here.rank != 0) {
      store->wait({invalid}, kPatience);
      store->add(heard, 1);
      return false;
    }
    runtime::store_set(*store, invalid, "yes");
    // Rank 0's process may serve the store, so rank 0 must not exit before the other ranks have
    // read the key "plan/invalid".
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (store->add(heard, 0) < here.world_size - 1 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  } catch (const std::exception&) {
    // The store cannot be reached, or rank 0 has reported no error: this rank prints its own error.
  }
  return true;
}

// Longest time for which an exiting rank waits until its last output has been read.
constexpr auto kReaderPatience = std::chrono::seconds(5);

class Rank {
 public:
  Rank(const Options& options, const launch::RankEnvironment& here)
      : options_(options), here_(here) {}

  int train();
  // Reports the error to the launcher and to the ranks that wait for this rank. Returns the exit
  // status.
  int report(const std::exception& error);
  // Whether `error` is a failure of this rank's GPU.
  bool is_of_device(const std::exception& error) const;

 private:
  c10::Device device() const;
  void join(const config::Plan& plan);
  launch::RankError describe(const std::exception& error) const;
  void add_memory(launch::RankError& told, c10::Device device) const;

  const Options& options_;
  const launch::RankEnvironment& here_;
  std::optional<job::Job> job_;
  // Writes to stderr in the background, so that a slow reader does not stall the job.
  launch::BackgroundOutput out_{STDERR_FILENO};
  bool silent_ = false;  // rank 0 prints the same error, so this rank does not print its error
  std::optional<runtime::World> world_;  // set once this rank has joined the job
  std::unique_ptr<runtime::Watchdog> watchdog_;
  std::unique_ptr<live::AttachServer> server_;  // for am-repl's sessions; null with --no-attach
};

// Returns how long this rank waits for other ranks before it reports a failure.
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
  const auto waiting = [this](const std::string& reason) {
    out_.write(term::printable_lines(cat("am-run: ", runtime::waiting_text(here_, reason), "\n")));
  };
  world_ = runtime::World::connect(here_, {.timeout = patience(options_, plan),
                                           .backend = parallel::backend_of(plan),
                                           .waiting = waiting});
  world_->group().barrier();
  runtime::WatchdogOptions watch;
  watch.on_stall = [this](const runtime::CollectiveError& error) {
    std::_Exit(report(error));  // exits here, because the main thread hangs in the collective
  };
  watchdog_ = std::make_unique<runtime::Watchdog>(*world_, std::move(watch));
  compare_plans(plan, *world_);
}

int Rank::train() {
  Diagnostics found;
  job_ = open_job(options_, here_.world_size, &runtime::why_no_cuda, found);
  const auto& job = job_;
  if (!job) {
    if (here_.rank == 0) am_apps::print_diagnostics(found, options_.output);
    silent_ = !prints_for_all(here_);
    // Every rank throws the plan's error, not only rank 0: the launcher may end all other ranks
    // once one rank has failed, and the first failure must name the cause.
    const auto is_error = [](const Diagnostic& one) { return one.severity == Severity::kError; };
    const auto first = std::find_if(found.items().begin(), found.items().end(), is_error);
    throw Error(ErrorKind::kPlan, cat("the plan is not valid: ", first->message), first->help);
  }
  const bool first = here_.rank == 0;
  if (const auto threads =
          launch::own_threads(here_, launch::process_environment(), launch::usable_cores())) {
    at::set_num_threads(static_cast<int>(*threads));
  }
  // Never destroyed, so that a stop signal that arrives while the process exits is still handled
  // and does not look like a failure.
  const launch::StopSignal& stop = *new launch::StopSignal;
  join(job->plan);
  const run_folder::RunFolder run(run_root(options_));
  const auto checkpoints = run_folder::checkpoint_folder(job->plan, run);
  const std::string launcher = launch::process_environment()(kJobVariable).value_or("");
  share_folders(run, checkpoints, /*made=*/!launcher.empty(), *world_);
  auto identity = train::agree_on_job(*world_, launcher);
  const std::string began = launch::process_environment()(kBeganVariable).value_or("");
  identity.began = std::strtod(began.c_str(), nullptr);
  const auto locks = lock_folders(run, checkpoints, identity, *world_);
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
    live::AttachServerOptions attach;
    attach.log = [this](const std::string& text) { out_.write(term::echo(text) + "\n"); };
    attach.stop_requested = [&stop] { return stop.requested(); };
    attach.dump_interval =
        std::chrono::duration<double, std::ratio<60>>(job->plan.runtime.dump_minutes);
    attach.mesh = job->layout.mesh;
    attach.tcp = options_.attach_at;
    server_ = std::make_unique<live::AttachServer>(*world_, run, std::move(attach));
  }
  if (!options_.attach && job->plan.runtime.dump_minutes > 0.0 && first) {
    out_.write("note        runtime.dump_minutes has no effect with --no-attach\n");
  }
  std::optional<observe::StepLine> line;
  int64_t last_step = 0;
  const int64_t every = std::max<int64_t>(1, job->plan.metrics.every);
  train::TrainerCallbacks callbacks;
  callbacks.log = [this](const std::string& text) { out_.write(term::echo(text) + "\n"); };
  callbacks.step = [&](const observe::StepMetrics& metrics) {
    const std::string text = line->format(metrics);
    const bool last = metrics.step == last_step;
    if (metrics.step % every == 0 || metrics.step == 1 || last) out_.write(text + "\n");
    if (server_) server_->stepped(metrics);
  };
  if (server_) {
    callbacks.phase = [this](const char* phase) { server_->phase_over(phase); };
    callbacks.times = [this](const observe::RankTimes& times, int64_t steps) {
      server_->timed(times, steps);
    };
  }
  // From now on, freed host memory is kept for the next step, which allocates blocks of the same
  // sizes.
  tensor::BlockCache::install();
  train::Trainer trainer(*job, *world_, run, std::move(callbacks), {}, identity);
  last_step = trainer.plan().train.max_steps;
  line.emplace(last_step);
  if (first) write_own_file(run.plan_file(), config::to_toml(trainer.plan()));
  if (server_) server_->open(live::model_of(trainer, run.root().string()));
  const train::TrainResult result = trainer.run(stop, server_.get(), options_.on_failure);
  if (server_) {
    server_->close(
        cat("the job has ended ", result.stopped ? "as asked, " : "", "after step ", result.steps));
  }
  if (first && result.stopped) out_.write(cat("stopped at step ", result.steps, " as asked\n"));
  out_.flush(kReaderPatience);
  // am-run's launcher computes the exit status of a stopped job itself. Under another launcher, the
  // rank returns this status.
  const bool alone = !launch::process_environment()(launch::kErrorFileVariable);
  return result.stopped && alone ? options_.stopped_status : 0;
}

c10::Device Rank::device() const { return world_ ? world_->device() : c10::Device(at::kCPU); }

bool Rank::is_of_device(const std::exception& error) const {
  return runtime::device_error(error, device()).has_value();
}

launch::RankError Rank::describe(const std::exception& error) const {
  const c10::Device device = this->device();
  const auto* own = dynamic_cast<const Error*>(&error);
  const auto of_device = runtime::device_error(error, device);
  if (own == nullptr && of_device) own = &*of_device;
  const Error other(ErrorKind::kRuntime, first_line(error));
  launch::RankError told = launch::rank_error(own != nullptr ? *own : other, here_.rank);
  const auto* failed_device = dynamic_cast<const runtime::DeviceError*>(own);
  if (failed_device != nullptr && failed_device->out_of_memory() && job_) add_memory(told, device);
  if (world_) {
    told.step = world_->progress().step();
    told.last_collective = world_->progress().last_collective();
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

// Appends three numbers of bytes to the message of an out-of-memory error: the most that PyTorch's
// GPU allocator had allocated, the most that it had reserved, and the peak that am-plan predicts.
// If plan keys would reduce the memory, replaces the hint by a list of these keys.
void Rank::add_memory(launch::RankError& told, c10::Device device) const {
  const predict::RankMemory memory =
      predict::estimate_memory(job_->plan, job_->model, job_->layout, here_.rank);
  told.message +=
      cat("; allocated at most ", format_bytes(tensor::peak_memory_bytes(device)),
          ", reserved at most ", format_bytes(tensor::peak_reserved_bytes(device)), ", predicted ",
          format_bytes(memory.components.total()), ", in ", memory.moment);
  std::vector<std::string> savings;
  for (const auto& each :
       predict::memory_savings(job_->plan, job_->model, job_->layout, here_.rank)) {
    savings.push_back(cat(each.key, " saves ", format_bytes(each.bytes)));
  }
  if (!savings.empty()) told.hint = am::join(savings, "; ");
}

int Rank::report(const std::exception& error) {
  const launch::RankError told = describe(error);
  const bool launcher_knows = launch::report_error(launch::process_environment(), told) &&
                              launch::process_environment()(launch::kErrorFileVariable).has_value();
  // am-run's launcher prints the errors that reached it. This rank prints its own error under
  // another launcher, and also if am-run's launcher could not be informed (for example because the
  // disk is full).
  if (!launcher_knows && !silent_) {
    out_.write(cat("am-run: rank ", here_.rank, ": ", term::echo_lines(told.message), "\n"));
    if (!told.hint.empty()) out_.write(cat("help: ", term::echo_lines(told.hint), "\n"));
  }
  if (server_) server_->close(cat("the job has failed: ", told.message));
  out_.flush(kReaderPatience);
  if (watchdog_ && told.kind != launch::kHangError && told.kind != launch::kPeerError) {
    world_->progress().set_failed(told.message);
    watchdog_->publish();
  }
  return told.exit_status;
}

// This process's rank, for report_and_terminate(). Global, because a terminate handler takes no
// arguments.
std::atomic<Rank*> g_rank = nullptr;

// Terminate handler that reports the current exception if it is a failure of the GPU. Such a
// failure can escape from a destructor: once a GPU has failed, even freeing pinned memory throws.
void report_and_terminate() {
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& error) {
      Rank* rank = g_rank;
      if (rank != nullptr && rank->is_of_device(error) &&
          g_rank.compare_exchange_strong(rank, nullptr)) {
        std::_Exit(rank->report(error));
      }
    } catch (...) {
    }
  }
  std::abort();
}

}  // namespace

int run_rank(const Options& options, const launch::RankEnvironment& here) {
  auto rank = std::make_unique<Rank>(options, here);
  g_rank = rank.get();
  std::set_terminate(report_and_terminate);
  try {
    return rank->train();
  } catch (const std::exception& error) {
    const int status = rank->report(error);
    // Closing a connection would wait until its pending collectives time out. report() has flushed
    // the output, so the process exits without closing connections.
    std::_Exit(status);
  }
}

}  // namespace am_run
