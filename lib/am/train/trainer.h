// The training loop of one rank.
//
//   Trainer trainer(job, world, run, {.log = [](const std::string& line) { .. }});
//   TrainResult result = trainer.run(stop);
//
// Except for rounding, losses do not depend on the layout. An initial value depends only on the
// seed, the parameter's name and the element's index. The layout does not affect which samples a
// step reads. The loss is divided by the number of labels of the global batch, and the gradient
// norm counts each parameter once.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/checkpoint/background_saver.h"
#include "am/checkpoint/checkpoint.h"
#include "am/config/plan.h"
#include "am/job/job.h"
#include "am/job/on_failure.h"
#include "am/launch/supervise/stop_signal.h"
#include "am/mesh/layout.h"
#include "am/observe/loggers.h"
#include "am/observe/metrics.h"
#include "am/observe/rank_times.h"
#include "am/optim/optimizer.h"
#include "am/parallel/parallel_model.h"
#include "am/run_folder/held_folder.h"
#include "am/run_folder/job_record.h"
#include "am/run_folder/run_folder.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/world.h"
#include "am/train/data_batches.h"
#include "am/train/inspection_hook.h"
#include "am/train/job_identity.h"
#include "am/train/nonfinite.h"
#include "am/train/resume.h"
#include "am/train/step.h"
#include "am/train/straggler_watch.h"
#include "am/train/validation.h"

namespace am::train {

struct TrainerCallbacks {
  // Called on rank 0 with each line of the log.
  std::function<void(const std::string& line)> log;
  // Called on rank 0 after every finished step.
  std::function<void(const observe::StepMetrics& metrics)> step;
  // Called on every rank after every step. `times`: the rank's times, summed over all steps of this
  // job so far; `steps`: their number.
  std::function<void(const observe::RankTimes& times, int64_t steps)> times;
  // Called on every rank after each phase of a step. Phases are "forward" and "backward" of the
  // last micro-batch, and "optimizer".
  std::function<void(const char* phase)> phase;
};

struct TrainResult {
  int64_t steps = 0;          // number of finished steps, including those before resuming
  int64_t trained_steps = 0;  // number of steps that this trainer ran
  bool stopped = false;  // whether a request or train.max_time stopped the job before max_steps
  std::optional<observe::StepMetrics> last;  // metrics of the last step; empty if none was run
  std::filesystem::path checkpoint;  // path of the last checkpoint; empty if none was written
  std::filesystem::path exported;    // path of the exported weights; empty if there are none
};

class Trainer : private StepObserver {
 public:
  // Builds the model under the plan's layout, loads its weights or resumes from a checkpoint, and
  // opens the data. The plan of `job` must be checked, and its layout must have the size of
  // `world`. `strategy` may name a strategy of parallel/strategy.h that replaces the plan's
  // strategy. If `identity` (job_identity.h) is empty, the ranks agree on a new identity of the
  // job. Throws the errors of train/resume.h. Collective.
  Trainer(const job::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
          TrainerCallbacks callbacks, const std::string& strategy = {},
          const run_folder::JobIdentity& identity = {});
  // Creates a trainer for a model whose parameters already have values. Training begins at the
  // first step and does not resume. Takes ownership of `model`, unless the constructor throws.
  Trainer(const job::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
          TrainerCallbacks callbacks, std::unique_ptr<parallel::ParallelModel>& model);

  // Trains to the end of the job (job_length.h, validation.patience). Stops earlier if `stop`
  // requests the end on any rank, or if train.max_time has passed. Saves a checkpoint at the end if
  // checkpoint.last is true or the job was stopped. `hook`, if not null, may inspect the model
  // between steps; it must be null on all ranks or on no rank. If the loss or the gradients of a
  // step are not finite and the step ends the job, performs the action `on_failure` before the
  // error is thrown. Collective.
  TrainResult run(const launch::StopSignal& stop, InspectionHook* hook = nullptr,
                  const job::OnFailure& on_failure = {});

  // Runs one optimizer step (counted from 0) and returns its metrics. Collective.
  observe::StepMetrics train_step(int64_t step);
  // Runs the forward passes of a step's micro-batches without gradients. Collective.
  void forward_only(int64_t step);
  // Returns the number of tokens of the global batch that the last step routed to each expert,
  // layer after layer; empty before the first step, and for a model without experts.
  const std::vector<double>& expert_counts() const { return expert_counts_; }
  int64_t first_step() const { return first_step_; }
  // Returns the number of the last step that computed gradients, counted from 1; 0 before the first
  // step. A validation after this step frees the gradients.
  int64_t gradient_step() const { return gradient_step_; }
  // Returns the plan, with train.global_batch_size and train.max_steps set.
  const config::Plan& plan() const { return plan_; }
  // Sets optimizer.lr from the next step on, under the current schedule. All ranks must set the
  // same value. Checkpoints record the value, but a job that resumes uses the value in its own
  // plan.
  void set_learning_rate(double lr);
  // Returns the position of the first sequence of `step` in the order of the training data.
  int64_t samples_before(int64_t step) const { return batches_->samples_before(step); }
  parallel::ParallelModel& model() { return *model_; }
  const optim::Optimizer& optimizer() const { return *optimizer_; }
  // Writes the checkpoint step-N, where N is the number `steps` of finished steps, in the
  // background if checkpoint.async is true. Then deletes old checkpoints in the background, as
  // checkpoint.keep specifies. Returns the checkpoint's folder. Returns an empty path, and writes
  // nothing, if the state is not finite under train.on_nonfinite = "continue". Collective.
  std::filesystem::path save(int64_t steps);

 private:
  void phase_over(const char* phase) override;
  StepReport report() override;

  // Initialises the members that do not need the model.
  Trainer(const job::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
          TrainerCallbacks callbacks, const run_folder::JobIdentity& identity);
  // Chooses the checkpoint to resume from, if any, completes the plan, and opens the data. Called
  // before the model exists.
  void choose_resume_point(const model::ModelConfig& config);
  // Sets the FLOPs from which the MFU is computed, if the device is a GPU whose peak is known. The
  // GPU is found by the name that the driver reports or, if this name is unknown, by cluster.gpu.
  void set_peak(const model::ModelConfig& config);
  // Creates the optimizer and the objects that run and validate the model's steps.
  void add_steps();
  void load_or_resume();
  void load_state(const std::filesystem::path& folder);
  // Returns the contents of a checkpoint that is written after `steps` steps.
  checkpoint::SavedState saved_state(int64_t steps) const;
  bool nothing_to_do() const { return first_step_ >= plan_.train.max_steps; }
  // Prepares the run folder before the first step: begins the job's record, and renames superseded
  // checkpoints and the metrics of an earlier run.
  void begin();
  void end(const TrainResult& result);
  void train_to_the_end(TrainResult& result);
  // Performs the action on_failure_ after a step that failed with `error` on all ranks. Collective.
  void fail_step(const observe::StepMetrics& metrics, const Error& error);
  std::vector<std::unique_ptr<observe::MetricSink>> open_sinks() const;
  // On rank 0, starts the processes that send the metrics to services.
  void start_loggers();
  bool save_now(int64_t finished) const;
  // Whether train.max_time has passed. Always false on ranks other than 0.
  bool is_late() const;
  // Opens the folders that the job writes to. Called by run(), and by a save() before run().
  void hold_folders();
  // Throws Error(kIo) if one of the folders that the job writes to was removed, moved or replaced
  // since the job began, or if a symbolic link of another user leads to the checkpoints.
  void require_folders() const;
  // Makes the links RUN/latest and RUN/best. Called on rank 0.
  void link_checkpoints(const std::vector<run_folder::JobStep>& lineage) const;
  // Exports the weights, as checkpoint.export specifies. Collective.
  void export_model(TrainResult& result);
  // Calls `use`. If optimizer.ema_decay is set, the parameters hold their moving average during the
  // call.
  void with_average(const std::function<void()>& use);
  // Returns the job's record, updated with the steps and the loss of `result` and with the times.
  run_folder::JobRecord record_after(const TrainResult& result);
  // Records the job's progress and times, on rank 0. Never throws.
  void record_progress(const TrainResult& result);
  // Logs, once per job, that a finished checkpoint has no .metadata for PyTorch. Does nothing if
  // `folder` is empty.
  void note_missing_metadata(const std::filesystem::path& folder);
  // Compares the replicas (replica_check.h) after `steps` steps, unless an earlier call has already
  // compared them after this step. Collective.
  void verify_replicas(int64_t steps);
  // Waits until the thread that deletes old checkpoints has ended; throws the thread's error.
  void await_drop();
  void log(const std::string& line) const;

  config::Plan plan_;
  run_folder::RunFolder run_;
  std::filesystem::path checkpoints_;
  std::vector<run_folder::HeldFolder> held_;  // run folder; then checkpoints_, if it is elsewhere
  TrainerCallbacks callbacks_;
  layout::Layout layout_;
  runtime::World world_;
  runtime::DeviceMesh mesh_;
  run_folder::JobIdentity job_;
  double peak_lr_ = 0.0;  // optimizer.lr of the job's plan, before set_learning_rate()
  double began_ = 0.0;    // Unix time in seconds at which the job began
  StragglerWatch watch_;
  ResumePoint resume_point_;
  Json facts_;  // facts that identify the run (run_facts.h)
  std::unique_ptr<parallel::ParallelModel> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<StepGuard> guard_;
  std::unique_ptr<DataBatches> batches_;
  std::vector<double> expert_counts_;  // see expert_counts()
  std::unique_ptr<Step> step_;
  double peak_flops_ = 0.0;  // peak FLOP/s of a GPU in the compute dtype; 0: unknown
  double flops_per_token_ = 0.0;
  double saving_seconds_ = 0.0;  // from the end of the last step to the start of the current one
  std::unique_ptr<Validation> validation_;              // null if validation.every is 0
  std::unique_ptr<checkpoint::BackgroundSaver> saver_;  // null if checkpoint.async is false
  std::filesystem::path newest_;                        // the last folder passed to saver_
  bool metadata_noted_ = false;
  std::future<void> dropping_;  // on rank 0: deletes old checkpoints while training continues
  std::unique_ptr<observe::Loggers> loggers_;  // on rank 0, if the plan has metrics.loggers
  const launch::StopSignal* stop_ = nullptr;   // argument of run() while it runs
  InspectionHook* hook_ = nullptr;             // argument of run() while it runs
  job::OnFailure on_failure_;
  int64_t step_under_way_ = 0;
  int64_t gradient_step_ = 0;
  int64_t verified_step_ = 0;       // last step after which the replicas were compared
  StepReport asked_;                // StepNumbers::of_any_rank of the last step
  std::optional<Error> unwritten_;  // on rank 0: the error if the metrics could not be written
  int64_t first_step_ = 0;
  run_folder::JobRecord record_;  // the job's record, on rank 0
  run_folder::JobClock clock_;
  std::chrono::steady_clock::time_point recorded_;  // when progress was last recorded
};

}  // namespace am::train
