#include "am/train/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/checkpoint/own_part.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/cluster/hardware.h"
#include "am/data/from_plan.h"
#include "am/launch/supervise/wall_time.h"
#include "am/layout/adapters.h"
#include "am/model/flops.h"
#include "am/observe/loss_spikes.h"
#include "am/optim/from_plan.h"
#include "am/optim/schedule.h"
#include "am/predict/time/prediction.h"
#include "am/run_folder/checkpoint_folder.h"
#include "am/runtime/device_error.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/trace_range.h"
#include "am/tensor/process_memory.h"
#include "am/train/foreign_checkpoint.h"
#include "am/train/job_length.h"
#include "am/train/replica_check.h"
#include "am/train/run_facts.h"
#include "am/train/saved_states.h"
#include "am/train/step_trace.h"

namespace am::train {

namespace fs = std::filesystem;

namespace {

// A step records the job's progress only if the last record is older than this number of seconds. A
// saved checkpoint is recorded at once. After a failure, the last record shows the job's progress.
constexpr double kSecondsOfRecord = 1.0;
// Longest time for which a finished job waits until its loggers have sent the last steps.
constexpr auto kLoggerPatience = std::chrono::seconds(10);

std::optional<Error> write_metrics(const std::vector<std::unique_ptr<observe::MetricSink>>& sinks,
                                   const observe::StepMetrics& metrics,
                                   const std::function<void()>& require_folders) {
  try {
    if (!sinks.empty()) require_folders();
    for (const auto& sink : sinks) sink->write(metrics);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace

Trainer::Trainer(const job::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
                 TrainerCallbacks callbacks, const run_folder::JobIdentity& identity)
    : plan_(job.plan),
      run_(run),
      checkpoints_(run_folder::checkpoint_folder(job.plan, run)),
      callbacks_(std::move(callbacks)),
      layout_(job.layout),
      world_(world),
      mesh_(world, layout_.mesh),
      job_(identity.id.empty() ? agree_on_job(world, {}) : identity),
      peak_lr_(job.plan.optimizer.lr),
      began_(job_.began > 0.0 ? job_.began : launch::wall_time()),
      watch_(job.plan.metrics.straggler_seconds, world_, mesh_) {
  choose_resume_point(job.model);
}

Trainer::Trainer(const job::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
                 TrainerCallbacks callbacks, const std::string& strategy,
                 const run_folder::JobIdentity& identity)
    : Trainer(job, world, run, std::move(callbacks), identity) {
  model_ = parallel::ParallelModel::build(plan_, job.model, layout_, mesh_, strategy);
  add_steps();
  clock_.enter(run_folder::Phase::kLoading);
  load_or_resume();
  clock_.enter(run_folder::Phase::kStarting);
  if (plan_.checkpoint.async) {
    saver_ = std::make_unique<checkpoint::BackgroundSaver>(*model_, saved_state(first_step_),
                                                           mesh_.device().is_cpu());
  }
}

Trainer::Trainer(const job::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
                 TrainerCallbacks callbacks, std::unique_ptr<parallel::ParallelModel>& model)
    : Trainer(job, world, run, std::move(callbacks), run_folder::JobIdentity{}) {
  AM_ASSERT(!resume_point_.resumes(), "a trainer of a given model cannot resume from a checkpoint");
  model_ = std::move(model);
  try {
    add_steps();
  } catch (...) {
    model = std::move(model_);
    throw;
  }
}

void Trainer::add_steps() {
  runtime::with_place(
      mesh_.device(), [] { return "the optimizer's states"; },
      [&] { optimizer_ = optim::make_optimizer(plan_, *model_); });
  StepObserver& observer = *this;
  step_ = std::make_unique<Step>(plan_, *model_, *optimizer_, observer);
  guard_ = std::make_unique<StepGuard>(plan_, *model_, *optimizer_,
                                       [this](const std::string& line) { log(line); });
  if (plan_.validation.every > 0) {
    validation_ = std::make_unique<Validation>(plan_, *model_, world_);
    if (resume_point_.resumes()) validation_->resume_from(resume_point_.info);
    for (const std::string& each : validation_->descriptions()) log(cat("validation  ", each));
  }
}

void Trainer::log(const std::string& line) const {
  if (mesh_.rank() == 0 && callbacks_.log) callbacks_.log(line);
}

void Trainer::phase_over(const char* phase) {
  if (callbacks_.phase) callbacks_.phase(phase);
}

// Returns this rank's report. Step combines the reports of all ranks: if any rank requests a stop
// or a checkpoint, all ranks stop or save after the same step.
StepReport Trainer::report() {
  StepReport report;
  report.peak_memory_bytes = tensor::peak_memory_bytes(mesh_.device());
  report.peak_reserved_bytes = tensor::peak_reserved_bytes(mesh_.device());
  if (stop_ == nullptr) return report;
  watch_.fill(report);
  report.stop = stop_->requested() || is_late() || unwritten_ || (saver_ && saver_->failed());
  report.save = stop_->take_save_request();
  report.visit = hook_ != nullptr && hook_->wants_visit(step_under_way_ + 1);
  return report;
}

bool Trainer::is_late() const {
  const auto& limit = plan_.train.max_time;
  if (!limit || mesh_.rank() != 0) return false;
  return launch::wall_time() - began_ >= *limit;
}

void Trainer::choose_resume_point(const model::ModelConfig& config) {
  const bool batch_given = plan_.train.global_batch_size > 0;
  resume_point_ = train::choose_resume_point(plan_, checkpoints_, world_);
  plan_ = with_batch(std::move(plan_), layout_.mesh.sizes(), resume_point_);
  auto reader = std::make_unique<data::BatchReader>(
      data::open_batches(plan_, config.vocab_size, [this](const std::string& line) { log(line); }));
  for (const std::string& line : reader->descriptions()) log(cat("data        ", line));
  plan_ = with_length(std::move(plan_), resume_point_, *reader);
  if (plan_.scheduler.warmup_steps > plan_.train.max_steps) {
    log(cat("note        scheduler.warmup_steps = ", plan_.scheduler.warmup_steps,
            " is more than the ", plan_.train.max_steps, " steps of the job"));
  }
  if (!batch_given) {
    log(cat("batch       ", plan_.train.global_batch_size, " sequences per step, ",
            resume_point_.resumes()  ? "as in the checkpoint"
            : plan_.mesh.pp_size > 1 ? "one round of the pipeline on each data-parallel rank"
                                     : "one micro-batch of each data-parallel rank"));
  }
  facts_ = run_facts(plan_, config, *reader);
  agree_on_facts(facts_, world_);
  check_same_run(resume_point_, facts_, *reader);
  set_peak(config);
  first_step_ = resume_point_.info.step;
  batches_ = std::make_unique<DataBatches>(plan_, std::move(reader), mesh_, first_step_,
                                           first_sample(resume_point_, plan_), config.vocab_size);
}

void Trainer::load_or_resume() {
  for (const std::string& note : resume_point_.notes) log(cat("note        ", note));
  const std::string adapters = layout::adapters_text(layout_);
  if (!adapters.empty()) log(cat("adapters    ", adapters));
  if (!resume_point_.resumes()) {
    log(cat("weights     ", checkpoint::load_or_initialize(*model_, plan_)));
    return;
  }
  load_state(resume_point_.folder);
  log(cat("resumed     ", resume_point_.folder.string(), ", step ", first_step_));
}

void Trainer::load_state(const fs::path& folder) {
  const auto states = saved_states(*optimizer_, *model_);
  if (resume_point_.foreign) {
    load_foreign(folder, *model_, states);
  } else {
    const auto source = checkpoint::open_own_part(folder, *model_, states);
    checkpoint::load(*model_, *source);
    require_states(*source, states);
    for (const auto& state : states) {
      checkpoint::read(*source, state.key, state.parameter->box, state.value);
    }
  }
  optimizer_->set_steps(first_step_ - resume_point_.info.skipped_steps);
  guard_->resume_from(resume_point_.info);
}

void Trainer::forward_only(int64_t step) {
  BatchesOfSteps batches(*batches_, step, /*steps=*/1, step_->micro_batches());
  model_->forward_only(batches);
  batches_->take_wait();  // discards the time, which belongs to no step
}

observe::StepMetrics Trainer::train_step(int64_t step) {
  const runtime::TraceRange range([&] { return cat("step ", step + 1); });
  const StragglerWatch::Start start = watch_.start();
  world_.progress().set_step(step + 1);
  step_under_way_ = step;
  if (fault::is_planted(fault::Fault::kSlowRank) && world_.rank() == world_.size() - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (batches_->is_beyond_end(step)) {
    throw Error(ErrorKind::kUsage, cat("step ", step + 1, " is beyond the end of the data"),
                "raise train.epochs, or the epochs of a source");
  }
  const double scale = guard_->loss_scale();
  const StepNumbers numbers = step_->backward(*batches_, step, scale);
  gradient_step_ = step + 1;
  observe::StepMetrics metrics;
  metrics.step = step + 1;
  metrics.loss = numbers.loss_sum / static_cast<double>(numbers.labels);
  metrics.grad_norm = numbers.grad_norm / scale;
  metrics.lr =
      optim::learning_rate(plan_.scheduler, plan_.optimizer.lr, plan_.train.max_steps, step);
  const auto first_output = [&] {
    return first_nonfinite_output(*model_, *batches_, step, step_->micro_batches());
  };
  bool updates = false;
  try {
    updates = guard_->allows_update(numbers.own_loss_sum, metrics, first_output);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNumeric) fail_step(metrics, error);
    throw;
  }
  if (updates) {
    if (saver_) saver_->before_update();
    step_->update(numbers, scale, metrics.lr);
  } else {
    step_->leave_out_update();
  }
  asked_ = numbers.of_any_rank;
  metrics.peak_memory_bytes = asked_.peak_memory_bytes;
  if (asked_.peak_reserved_bytes > 0) metrics.peak_reserved_bytes = asked_.peak_reserved_bytes;
  metrics.expert_load = numbers.expert_load;
  expert_counts_ = numbers.expert_counts;
  metrics.aux_loss = numbers.aux_loss;
  metrics.tokens = step_->tokens();
  metrics.epochs = batches_->epochs(step + 1);
  metrics.step_seconds = launch::seconds_since(start.time);
  observe::fill_rates(metrics, layout_.mesh.world_size());
  if (peak_flops_ > 0.0) {
    metrics.mfu = flops_per_token_ * metrics.tokens_per_second_per_rank / peak_flops_;
  }
  metrics.tokens_seen = batches_->samples_read(step + 1) * plan_.train.seq_len;
  metrics.data_seconds = batches_->take_wait();
  if (!numbers.times.empty()) {
    for (const std::string& line : watch_.compare(numbers.times)) log(line);
  }
  metrics.waiting_seconds = watch_.add_step(start, metrics.data_seconds);
  if (callbacks_.times) callbacks_.times(watch_.times(), watch_.steps());
  metrics.saving_seconds = std::exchange(saving_seconds_, 0.0);
  if (validation_ && validation_->due(step + 1)) {
    const runtime::TraceRange validation([] { return "validation"; });
    const auto validated = std::chrono::steady_clock::now();
    with_average([&] { validation_->run(metrics); });
    metrics.validation_seconds = launch::seconds_since(validated);
  }
  metrics.time = launch::wall_time();
  return metrics;
}

void Trainer::verify_replicas(int64_t steps) {
  if (std::exchange(verified_step_, steps) == steps) return;
  const runtime::TraceRange range([] { return "verify_replicas"; });
  require_equal_replicas(*model_, *optimizer_, steps);
}

void Trainer::fail_step(const observe::StepMetrics& metrics, const Error& error) {
  using Action = job::OnFailure::Action;
  const int64_t finished = metrics.step - 1;
  const auto dump = [&] {
    const fs::path folder =
        behind_own_links(run_.failure()) / run_folder::checkpoint_name(finished);
    checkpoint::save_checkpoint(folder, saved_state(finished), *model_);
    return folder;
  };
  // Errors of these actions are only logged, because the caller throws the error of the step.
  try {
    if (on_failure_.action == Action::kDump) {
      clock_.enter(run_folder::Phase::kSaving);
      const fs::path folder = dump();
      log(cat("dumped      ", folder.string(), ": the state before the update of step ",
              metrics.step));
    }
    if (on_failure_.action == Action::kHold && hook_ != nullptr) {
      clock_.enter(run_folder::Phase::kVisits);
      hook_->hold({finished, metrics, dump}, error.what(),
                  std::chrono::minutes(on_failure_.minutes));
    }
  } catch (const std::exception& other) {
    log(cat("note        --on-failure: ", other.what()));
  }
}

void Trainer::set_peak(const model::ModelConfig& config) {
  if (mesh_.device().is_cpu() || mesh_.device().is_meta()) return;
  Diagnostics ignored;
  auto gpu = cluster::find_gpu(runtime::gpu_name(mesh_.device()), {}, {}, ignored);
  if (!gpu && !plan_.cluster.gpu.empty()) {
    gpu = cluster::find_gpu(plan_.cluster.gpu, folder_of(plan_.file), {}, ignored);
  }
  if (!gpu) return;
  peak_flops_ = predict::peak_flops(predict::compute_format(plan_), *gpu);
  flops_per_token_ = model::train_flops_per_token(config, plan_.train.seq_len);
}

void Trainer::with_average(const std::function<void()>& use) {
  if (plan_.optimizer.ema_decay == 0.0) return use();
  const auto swap = [this] {
    model_->reshard();
    optimizer_->swap_average();
  };
  if (saver_) saver_->before_update();
  swap();
  try {
    use();
  } catch (...) {
    swap();
    throw;
  }
  swap();
}

void Trainer::set_learning_rate(double lr) {
  plan_.optimizer.lr = lr;
  facts_["optimizer.lr"] = lr;
}

bool Trainer::save_now(int64_t finished) const {
  return plan_.checkpoint.every > 0 && finished % plan_.checkpoint.every == 0;
}

TrainResult Trainer::run(const launch::StopSignal& stop, InspectionHook* hook,
                         const job::OnFailure& on_failure) {
  TrainResult result;
  result.steps = first_step_;
  begin();
  stop_ = &stop;
  hook_ = hook;
  on_failure_ = on_failure;
  try {
    train_to_the_end(result);
    const bool exported = plan_.checkpoint.export_every > 0 && !result.exported.empty() &&
                          result.steps % plan_.checkpoint.export_every == 0;
    if (plan_.checkpoint.export_format == "hf" && !result.stopped && !exported) {
      export_model(result);
    }
  } catch (...) {
    record_progress(result);
    loggers_.reset();
    throw;
  }
  stop_ = nullptr;
  hook_ = nullptr;
  result.trained_steps = result.steps - first_step_;
  end(result);
  if (loggers_) loggers_->finish(kLoggerPatience);
  return result;
}

void Trainer::train_to_the_end(TrainResult& result) {
  const bool first = mesh_.rank() == 0;
  const auto sinks = open_sinks();
  start_loggers();
  bool saved =
      resume_point_.resumes();  // whether a checkpoint of the current state exists or was tried
  fs::path written;             // checkpoint of the current state, if this job has written one
  const auto write = [&] {
    const runtime::TraceRange range([] { return "save"; });
    clock_.enter(run_folder::Phase::kSaving);
    if (plan_.checkpoint.verify_replicas > 0) verify_replicas(result.steps);
    const StragglerWatch::Start start = watch_.start();
    written = save(result.steps);
    watch_.add_saving(start);
    if (written.empty()) return;
    result.checkpoint = written;
    clock_.save(result.steps);
    record_progress(result);
  };
  const auto goes_on = [&](int64_t step) {
    const bool over = validation_ && validation_->is_over();
    return step < plan_.train.max_steps && !result.stopped && !over;
  };
  auto line = std::chrono::steady_clock::now();  // when the last step's line was logged
  observe::LossSpikes spikes(plan_.metrics.spike_sigma, plan_.metrics.spike_window);
  StepTrace trace(plan_.metrics.trace, mesh_, run_.root() / "traces");
  const auto log_trace = [&](const std::vector<std::string>& lines) {
    for (const std::string& each : lines) log(each);
  };
  for (int64_t step = first_step_; goes_on(step); ++step) {
    clock_.enter(run_folder::Phase::kSteps);
    trace.begin_step(step + 1);
    if (step > first_step_) saving_seconds_ = launch::seconds_since(line);
    observe::StepMetrics metrics = train_step(step);
    const run_folder::JobTime& time = clock_.time();
    if (first && time.failures > 0) metrics.goodput = time.goodput();
    result.stopped = asked_.stop && step + 1 < plan_.train.max_steps;
    result.steps = step + 1;
    result.last = metrics;
    if (!unwritten_) {
      unwritten_ = write_metrics(sinks, metrics, [this] { require_folders(); });
    }
    metrics.goodput = time.goodput();
    if (first && callbacks_.step) callbacks_.step(metrics);
    if (const auto spike = spikes.add(result.steps, metrics.loss)) log(cat("warning     ", *spike));
    if (loggers_) loggers_->check();
    line = std::chrono::steady_clock::now();
    if (launch::seconds_since(recorded_) > kSecondsOfRecord) record_progress(result);
    saved = save_now(result.steps) || asked_.save;
    written.clear();
    const int64_t verify = plan_.checkpoint.verify_replicas;
    if (verify > 0 && result.steps % verify == 0) verify_replicas(result.steps);
    if (saved) {
      if (!unwritten_) {
        for (const auto& sink : sinks) sink->flush();
      }
      write();
    }
    const int64_t export_every = plan_.checkpoint.export_every;
    if (export_every > 0 && result.steps % export_every == 0) {
      if (result.stopped && !saved) write();
      saved = saved || result.stopped;
      clock_.enter(run_folder::Phase::kSaving);
      export_model(result);
    }
    if (asked_.visit && !result.stopped && hook_ != nullptr) {
      const auto save_here = [&] {
        if (!saved) write();
        saved = true;
        return written;
      };
      clock_.enter(run_folder::Phase::kVisits);
      const bool trains_on = hook_->visit({result.steps, metrics, save_here});
      result.stopped = !trains_on && step + 1 < plan_.train.max_steps;
    }
    log_trace(trace.end_step(step + 1));
  }
  log_trace(trace.finish());
  clock_.enter(run_folder::Phase::kSaving);  // counts the last save, and the export in run()
  if (result.stopped && is_late()) {
    log(cat("note        train.max_time has passed: the job stops after step ", result.steps));
  }
  if (validation_ && validation_->is_over()) {
    log(cat("note        the last ", plan_.validation.patience,
            " validations found no lower loss: training ends after step ", result.steps));
  }
  if (!saved && (plan_.checkpoint.last || result.stopped)) write();
  if (saver_) {
    saver_->finish();
    note_missing_metadata(newest_);
  }
  await_drop();
  if (unwritten_) throw Error(*unwritten_);
  for (const auto& sink : sinks) sink->flush();
}

}  // namespace am::train
