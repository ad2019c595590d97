// Handles steps whose loss or gradients are not finite, and models with parameters or optimizer
// states that are not finite.
//
// Loss and gradient norm are equal on all ranks, so all ranks reach the same decision without
// communication. Ranks communicate only to find the ranks and parameters with non-finite values:
// before the job ends with an error, when on_nonfinite = "skip" skips a step, and before a
// checkpoint or an export is written.
//
// In float16 training, the loss scale is lowered first if gradients overflow
// (optim/grad_scaler.h). train.on_nonfinite applies if the loss is not finite. The key also
// applies to non-finite gradients if the loss scale cannot be lowered: without a loss scale, if
// the scale is fixed, or if the scale has its smallest value, 1.
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
  // Returns whether the optimizer may make the step's update. Reads the step's loss and gradient
  // norm from `metrics`, and writes the loss scale and the number of skipped steps to `metrics`.
  // `own_loss` is this rank's loss, a tensor of one element.
  //
  // Throws Error(kNumeric) if the job must end. Under on_nonfinite = "skip", the job ends only if a
  // parameter or an optimizer state is not finite, and the error names the parameter. Under "stop",
  // the error lists the ranks with a non-finite loss or gradient, the first parameter whose
  // gradient is not finite, and the text of `first_output`, which describes the first non-finite
  // output (first_nonfinite_output). Collective if the loss or the gradient norm is not finite.
  bool allows_update(const at::Tensor& own_loss, observe::StepMetrics& metrics,
                     const std::function<std::string()>& first_output = {});
  // Returns true if the parameters and the optimizer's states are finite, so that `what`, for
  // example "the export", may be written. Otherwise throws Error(kNumeric), or under on_nonfinite =
  // "continue" logs a note and returns false. Collective.
  bool allows_writing(const std::string& what);

  // Must be called when a checkpoint is saved. Later errors advise to continue from the last
  // checkpoint.
  void note_checkpoint() { has_checkpoint_ = true; }
  // Save the number of skipped steps and the loss scale to a checkpoint's info, and restore them.
  void write_to(run_folder::CheckpointInfo& info) const;
  void resume_from(const run_folder::CheckpointInfo& info);

 private:
  using Verdict = optim::GradScaler::Verdict;

  Verdict judge(const observe::StepMetrics& metrics);
  // Returns the advice that errors contain: where to continue from, and which settings to change.
  std::string advice() const;
  void refuse_broken_state(const observe::StepMetrics& metrics);
  void skip(const observe::StepMetrics& metrics, const std::string& why);
  std::string describe(const at::Tensor& own_loss, const observe::StepMetrics& metrics,
                       const std::function<std::string()>& first_output);
  // Returns the name of the first parameter or optimizer state that is not finite, and the ranks
  // with non-finite values, for example "model.norm.weight on rank 1". Returns an empty string if
  // all parameters and states are finite. Collective.
  std::string broken_state();

  std::string on_nonfinite_;
  parallel::ParallelModel& model_;
  const optim::Optimizer& optimizer_;
  std::function<void(const std::string& line)> log_;
  std::optional<optim::GradScaler> scaler_;
  int64_t skipped_ = 0;
  bool has_checkpoint_ = false;
};

// Repeats the forward passes of the micro-batches of step `step` (counted from 0), without an
// autograd graph and without adapters' dropout. `micro_batches`: their number on each rank. Returns
// a description of the first output that is not finite, ordered by micro-batch and then by unit,
// for example "the output of model.layers.3 in micro-batch 2 on rank 5 (stage 1)". Returns an empty
// string if all outputs are finite: the non-finite value then arose in the loss or in backward.
// Collective; every rank returns the same text.
std::string first_nonfinite_output(parallel::ParallelModel& model, BatchSource& batches,
                                   int64_t step, int64_t micro_batches);

}  // namespace am::train
