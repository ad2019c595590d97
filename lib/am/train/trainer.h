// The training loop of one rank.
//
//   Trainer trainer(job, world, run, {.log = [](const std::string& line) { .. }});
//   TrainResult result = trainer.run(stop);
//
// Everything that could depend on the layout is keyed by something that does not: parameters by
// name and index, samples by step, the loss by the label count of the global batch, the gradient
// norm by each parameter once. So any layout gives the losses of one rank within rounding.
#pragma once

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
#include "am/launch/supervise/stop_signal.h"
#include "am/mesh/layout.h"
#include "am/observe/metrics.h"
#include "am/optim/optimizer.h"
#include "am/parallel/parallel_model.h"
#include "am/planner/job.h"
#include "am/run_folder/held_folder.h"
#include "am/run_folder/job_record.h"
#include "am/run_folder/run_folder.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/world.h"
#include "am/stored/tensor_source.h"
#include "am/train/data_batches.h"
#include "am/train/guest.h"
#include "am/train/job_identity.h"
#include "am/train/nonfinite.h"
#include "am/train/resume.h"
#include "am/train/step.h"
#include "am/train/validation.h"

namespace am::train {

struct TrainerCallbacks {
  // A line for people, on rank 0.
  std::function<void(const std::string& line)> log;
  // Every finished step, on rank 0.
  std::function<void(const observe::StepMetrics& metrics)> step;
  // What part of a step is over, on every rank: "forward" and "backward" of its last micro-batch,
  // "optimizer".
  std::function<void(const char* phase)> phase;
};

struct TrainResult {
  int64_t steps = 0;          // finished, those of resumed runs included
  int64_t trained_steps = 0;  // of these by this job's trainer
  bool stopped = false;       // a signal ended it before max_steps
  std::optional<observe::StepMetrics> last;
  std::filesystem::path checkpoint;  // the last one; empty when none was written
  std::filesystem::path exported;
};

class Trainer : private StepObserver {
 public:
  // Collective: builds the model under the plan's layout, loads or resumes it, opens the data.
  // The job was checked, and is one for a world of this size. `strategy`: in place of the plan's
  // own, one of parallel/strategy.h by name. `identity`: job_identity.h; one of its own where none
  // is given. Throws as train/resume.h does.
  Trainer(const planner::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
          TrainerCallbacks callbacks, const std::string& strategy = {},
          const run_folder::JobIdentity& identity = {});
  // Trains a model that has its values, from its first step, and resumes nothing; `model` is taken
  // where the trainer could be made, and stays where it was otherwise.
  Trainer(const planner::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
          TrainerCallbacks callbacks, std::unique_ptr<parallel::ParallelModel>& model);

  // Collective: trains to max_steps, or until a rank is asked to stop; saves at the end.
  // `guest` looks in between steps where it wants to; on all ranks, or on none.
  TrainResult run(const launch::StopSignal& stop, Guest* guest = nullptr);

  // One optimizer step (from 0); what metrics.jsonl says about it.
  observe::StepMetrics train_step(int64_t step);
  int64_t first_step() const { return first_step_; }
  // With its batch filled in.
  const config::Plan& plan() const { return plan_; }
  // optimizer.lr from the next step on, under the schedule that there is; on all ranks alike.
  // Checkpoints say it, and a job that resumes goes by its own plan.
  void set_learning_rate(double lr);
  // How many sequences come before those of `step`.
  int64_t samples_before(int64_t step) const { return batches_->samples_before(step); }
  parallel::ParallelModel& model() { return *model_; }
  const optim::Optimizer& optimizer() const { return *optimizer_; }
  // Writes checkpoints/step-N for `steps` finished steps; drops old ones beyond checkpoint.keep.
  // Empty where the state is not finite, under train.on_nonfinite = "continue".
  std::filesystem::path save(int64_t steps);

 private:
  void phase_over(const char* phase) override;
  StepReport report() override;

  // Members that need no model.
  Trainer(const planner::Job& job, const runtime::World& world, const run_folder::RunFolder& run,
          TrainerCallbacks callbacks, const run_folder::JobIdentity& identity);
  // The checkpoint, if any, and what is trained from there on; the model is not there yet.
  void choose_beginning(const model::ModelConfig& config);
  // What makes steps of the model.
  void add_steps();
  void load_or_resume();
  void load_state(const std::filesystem::path& folder);
  // Throws Error(kFormat) where a parameter that trains has none.
  void check_states(const stored::TensorSource& source) const;
  // After this many steps.
  checkpoint::SavedState saved_state(int64_t steps) const;
  bool nothing_to_do() const { return first_step_ >= plan_.train.max_steps; }
  // Before the first step: what lies ahead of it in the run folder gives way.
  void begin();
  void end(const TrainResult& result) const;
  void train_to_the_end(TrainResult& result);
  std::vector<std::unique_ptr<observe::MetricSink>> open_sinks() const;
  bool save_now(int64_t finished) const;
  // Throws Error(kIo) where one of the folders that the job writes in was removed, moved or
  // replaced since it began, or its checkpoints are behind another user's link.
  void require_folders() const;
  // Collective: the weights as checkpoint.export says, after the last step.
  void export_model(TrainResult& result) const;
  // The job's record with the steps and the loss of `result`.
  run_folder::JobRecord record_after(const TrainResult& result) const;
  // On rank 0, where the job fails: how far it came. Never throws.
  void record_failure(const TrainResult& result) const;
  // What was dropped after the last save is gone; throws what that met.
  void await_drop();
  void log(const std::string& line) const;

  config::Plan plan_;
  run_folder::RunFolder run_;
  std::filesystem::path checkpoints_;
  std::vector<run_folder::HeldFolder> held_;  // of run(), the run's first
  TrainerCallbacks callbacks_;
  planner::Layout layout_;
  runtime::World world_;
  runtime::DeviceMesh mesh_;
  run_folder::JobIdentity job_;
  Beginning beginning_;
  Json facts_;  // run_facts.h
  std::unique_ptr<parallel::ParallelModel> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<StepGuard> guard_;
  std::unique_ptr<DataBatches> batches_;
  std::unique_ptr<Step> step_;
  std::unique_ptr<Validation> validation_;              // null: none
  std::unique_ptr<checkpoint::BackgroundSaver> saver_;  // null: checkpoint.async is false
  std::future<void> dropping_;                // old checkpoints, on rank 0, while training goes on
  const launch::StopSignal* stop_ = nullptr;  // of run()
  Guest* guest_ = nullptr;                    // of run()
  int64_t step_under_way_ = 0;
  StepReport asked_;                // by any rank, with the last step
  std::optional<Error> unwritten_;  // of rank 0: the disk of the metrics is full
  int64_t first_step_ = 0;
  run_folder::JobRecord record_;  // on rank 0
};

}  // namespace am::train
