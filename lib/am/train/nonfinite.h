// Handles steps whose loss or gradients are not finite, and models with parameters or optimizer
// states that are not finite.
//
// Loss and gradient norm are the same numbers on every rank, so all ranks decide alike without a
// message. Messages are needed only to find the ranks and parameters with non-finite values: before
// the job ends with an error, when on_nonfinite = "skip" skips a step, and before a checkpoint or
// an export is written.
//
// Under float16 the loss scale handles overflows first (optim/grad_scaler.h). train.on_nonfinite
// decides the other cases: a loss that is not finite; and gradients that are not finite if there is
// no loss scale, or if the scale is fixed or has its smallest value, 1.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "am/checkpoint/checkpoint.h"
#include "am/config/plan.h"
#include "am/observe/metrics.h"
#include "am/optim/grad_scaler.h"
#include "am/optim/optimizer.h"
#include "am/parallel/parallel_model.h"
#include "am/train/step.h"

namespace am::train {

class StepGuard {
 public:
  // `model` and `optimizer` must outlive this object. `log` is called on every rank with a line for
  // each skipped step and for other problems.
  StepGuard(const config::Plan& plan, parallel::ParallelModel& model,
            const optim::Optimizer& optimizer, std::function<void(const std::string& line)> log);

  // Returns the factor by which the loss is multiplied before backward. The gradients contain this
  // factor until the update.
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1.0; }
  // Whether the optimizer may make the step's update. Reads the step's loss and gradient norm from
  // `metrics`, and writes the loss scale and the number of skipped steps to `metrics`. `own_loss`
  // is this rank's loss, a tensor of one element. Throws Error(kNumeric) if the job must end. The
  // error names the step and, where they apply, the ranks, the first parameter whose gradient is
  // not finite, and the text of `first_output`, which names the first output that is not finite
  // (first_nonfinite_output). Under on_nonfinite = "skip", the job ends only if a parameter or an
  // optimizer state is not finite; the error names it. Collective if loss or norm are not finite.
  bool allows_update(const at::Tensor& own_loss, observe::StepMetrics& metrics,
                     const std::function<std::string()>& first_output = {});
  // Returns true if the parameters and the optimizer's states are finite, so that `what`, for
  // example "the export", may be written. Otherwise throws Error(kNumeric), or under on_nonfinite =
  // "continue" logs a note and returns false. Collective.
  bool allows_writing(const std::string& what);

  // Must be called when a checkpoint is saved: errors then advise to continue from it.
  void note_checkpoint() { has_checkpoint_ = true; }
  // Save the number of skipped steps and the loss scale to a checkpoint's info, and restore them.
  void write_to(run_folder::CheckpointInfo& info) const;
  void resume_from(const run_folder::CheckpointInfo& info);

 private:
  using Verdict = optim::GradScaler::Verdict;

  Verdict judge(const observe::StepMetrics& metrics);
  // Returns the advice of errors: from where to train again, and how.
  std::string advice() const;
  void refuse_broken_state(const observe::StepMetrics& metrics);
  void skip(const observe::StepMetrics& metrics, const std::string& why);
  std::string describe(const at::Tensor& own_loss, const observe::StepMetrics& metrics,
                       const std::function<std::string()>& first_output);
  // Returns the name of the first parameter or optimizer state that is not finite, and the ranks
  // that have such values, for example "model.norm.weight on rank 1"; empty if all are finite.
  // Collective.
  std::string broken_state();

  std::string on_nonfinite_;
  parallel::ParallelModel& model_;
  const optim::Optimizer& optimizer_;
  std::function<void(const std::string& line)> log_;
  std::optional<optim::GradScaler> scaler_;
  int64_t skipped_ = 0;
  bool has_checkpoint_ = false;
};

// Repeats the forward of the step's micro-batches, without a graph and without adapters' dropout.
// Returns a description of the first output that is not finite, in the order of micro-batches and
// then of units: "the output of model.layers.3 in micro-batch 2 on rank 5 (stage 1)". Returns an
// empty string if all outputs are finite: the non-finite value then arose in the loss or in
// backward. Collective; every rank returns the same text.
std::string first_nonfinite_output(parallel::ParallelModel& model, BatchSource& batches,
                                   int64_t step, int64_t micro_batches);

}  // namespace am::train
