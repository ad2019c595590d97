// The training loop of one rank.
//
//   Trainer trainer(job, world, run, {.log = [](const std::string& line) { .. }});
//   TrainResult result = trainer.run(stop);
//
// Losses are independent of the layout, within rounding: initial values depend on the parameter's
// name and index, samples on the step; the loss is divided by the label count of the global batch,
// and the gradient norm counts each parameter once.
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
#include "am/launch/supervise/stop_signal.h"
#include "am/mesh/layout.h"
#include "am/observe/metrics.h"
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
#include "am/train/validation.h"

namespace am::train {

struct TrainerCallbacks {
  // A line of the log, on rank 0.
  std::function<void(const std::string& line)> log;
  // Every finished step, on rank 0.
  std::function<void(const observe::StepMetrics& metrics)> step;
  // Called on every rank when a part of a step is over: "forward" and "backward" of its last
  // micro-batch, "optimizer".
  std::function<void(const char* phase)> phase;
};

struct TrainResult {
  int64_t steps = 0;          // finished, including those before resuming
  int64_t trained_steps = 0;  // trained by this trainer
  bool stopped = false;       // a signal ended it before max_steps
  std::optional<observe::StepMetrics> last;
  std::filesystem::path checkpoint;  // the last one; empty when none was written
  std::filesystem::path exported;
};

class Trainer : private StepObserver {
 public:
  // Collective: builds the model under the plan's layout, loads or resumes it, opens the data.
  // Requires a checked job for a world of this size. `strategy`: name of a strategy of
  // parallel/strategy.h that replaces the plan's. `identity`: see job_identity.h; by default a new
  // one. Throws as train/resume.h does.
  Trainer(const job::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
          TrainerCallbacks callbacks, const std::string& strategy = {},
          const run_folder::JobIdentity& identity = {});
  // Trains a model that has its values, from the first step, without resuming. Moves from `model`
  // unless the constructor throws.
  Trainer(const job::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
          TrainerCallbacks callbacks, std::unique_ptr<parallel::ParallelModel>& model);

  // Collective: trains to max_steps, or until a rank is asked to stop; saves at the end.
  // `hook` may visit between steps; passed on all ranks, or on none.
  TrainResult run(const launch::StopSignal& stop, InspectionHook* hook = nullptr);

  // Runs one optimizer step (counted from 0) and returns its record in metrics.jsonl.
  observe::StepMetrics train_step(int64_t step);
  int64_t first_step() const { return first_step_; }
  // The plan, with train.global_batch_size set.
  const config::Plan& plan() const { return plan_; }
  // Sets optimizer.lr from the next step on, under the current schedule; requires the same value on
  // all ranks. Checkpoints record it, but a job that resumes uses its own plan's.
  void set_learning_rate(double lr);
  // Number of sequences in all steps before `step`.
  int64_t samples_before(int64_t step) const { return batches_->samples_before(step); }
  parallel::ParallelModel& model() { return *model_; }
  const optim::Optimizer& optimizer() const { return *optimizer_; }
  // Writes checkpoints/step-N for `steps` finished steps; drops old ones beyond checkpoint.keep.
  // Returns the folder; empty if the state is not finite and train.on_nonfinite = "continue".
  std::filesystem::path save(int64_t steps);

 private:
  void phase_over(const char* phase) override;
  StepReport report() override;

  // Initialises the members that do not need the model.
  Trainer(const job::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
          TrainerCallbacks callbacks, const run_folder::JobIdentity& identity);
  // Chooses the checkpoint, if any, and the plan and data to train with; called before the model
  // exists.
  void choose_resume_point(const model::ModelConfig& config);
  // Makes the objects that run the model's steps.
  void add_steps();
  void load_or_resume();
  void load_state(const std::filesystem::path& folder);
  // Returns the contents of a checkpoint after `steps` steps.
  checkpoint::SavedState saved_state(int64_t steps) const;
  bool nothing_to_do() const { return first_step_ >= plan_.train.max_steps; }
  // Prepares the run folder before the first step: sets aside checkpoints of later steps and
  // earlier metrics.
  void begin();
  void end(const TrainResult& result);
  void train_to_the_end(TrainResult& result);
  std::vector<std::unique_ptr<observe::MetricSink>> open_sinks() const;
  bool save_now(int64_t finished) const;
  // Throws Error(kIo) if one of the folders that the job writes in was removed, moved or replaced
  // since it began, or if its checkpoints are behind another user's link.
  void require_folders() const;
  // Collective: exports the weights as checkpoint.export says, after the last step.
  void export_model(TrainResult& result) const;
  // The job's record with the steps and the loss of `result`.
  run_folder::JobRecord record_after(const TrainResult& result);
  // Records the job's progress and times, on rank 0. Never throws.
  void record_progress(const TrainResult& result);
  // Logs, once per job, that a published checkpoint has no .metadata for PyTorch. `folder` empty:
  // does nothing.
  void note_missing_metadata(const std::filesystem::path& folder);
  // Waits until the old checkpoints are deleted; throws if deleting failed.
  void await_drop();
  void log(const std::string& line) const;

  config::Plan plan_;
  run_folder::RunFolder run_;
  std::filesystem::path checkpoints_;
  std::vector<run_folder::HeldFolder> held_;  // the job's folders during run(), the run's first
  TrainerCallbacks callbacks_;
  layout::Layout layout_;
  runtime::World world_;
  runtime::DeviceMesh mesh_;
  run_folder::JobIdentity job_;
  ResumePoint resume_point_;
  Json facts_;  // run_facts.h
  std::unique_ptr<parallel::ParallelModel> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<StepGuard> guard_;
  std::unique_ptr<DataBatches> batches_;
  std::unique_ptr<Step> step_;
  std::unique_ptr<Validation> validation_;              // null: none
  std::unique_ptr<checkpoint::BackgroundSaver> saver_;  // null: checkpoint.async is false
  std::filesystem::path newest_;                        // the last folder passed to saver_
  bool metadata_noted_ = false;
  std::future<void> dropping_;                // old checkpoints, on rank 0, while training goes on
  const launch::StopSignal* stop_ = nullptr;  // of run()
  InspectionHook* hook_ = nullptr;            // of run()
  int64_t step_under_way_ = 0;
  StepReport asked_;                // requests of all ranks, as of the last step
  std::optional<Error> unwritten_;  // on rank 0: the error of writing metrics, on a full disk
  int64_t first_step_ = 0;
  run_folder::JobRecord record_;  // on rank 0
  run_folder::JobClock clock_;
  std::chrono::steady_clock::time_point recorded_;  // the last progress
};

}  // namespace am::train
