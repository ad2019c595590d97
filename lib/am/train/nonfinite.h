// What becomes of a step whose loss or gradients are not finite, and of a model that is not.
//
// Loss and norm are the same numbers on every rank, so all decide alike and nobody is asked. Only
// where a job ends do ranks look which of them, and which parameter, has the bad values.
//
// Under float16 an overflow is what the loss scale answers first (optim/grad_scaler.h).
// train.on_nonfinite decides what is left: a loss that is not finite itself, and gradients that
// overflow at a scale of 1.
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

namespace am::train {

class StepGuard {
 public:
  // `model` and `optimizer` must outlive it. `log`: a line for people, on every rank.
  StepGuard(const config::Plan& plan, parallel::ParallelModel& model,
            const optim::Optimizer& optimizer, std::function<void(const std::string& line)> log);

  // What the loss is multiplied with before backward; the gradients hold it until the update.
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1.0; }
  // Whether the step's update is made. Takes the step's loss and norm from `metrics`, and writes
  // its scale and what was skipped so far there; `own_loss` is this
  // rank's, one value. Collective where it throws Error(kNumeric), which names the step, the first
  // output (`first_output` finds it: first_nonfinite.h), the ranks and the first parameter.
  bool allows_update(const at::Tensor& own_loss, observe::StepMetrics& metrics,
                     const std::function<std::string()>& first_output = {});
  // Whether the parameters and the optimizer's state are finite, so that `what` may be written. If
  // not: throws Error(kNumeric), or says so under on_nonfinite = "continue". Collective.
  bool allows_writing(const std::string& what);

  // The steps without an update, of resumed runs too, and the loss scale.
  void write_to(run_folder::CheckpointInfo& info) const;
  void resume_from(const run_folder::CheckpointInfo& info);

 private:
  using Verdict = optim::GradScaler::Verdict;

  Verdict judge(const observe::StepMetrics& metrics);
  void refuse_broken_state(const observe::StepMetrics& metrics);
  void skip(const observe::StepMetrics& metrics, const std::string& why);
  std::string describe(const at::Tensor& own_loss, const observe::StepMetrics& metrics,
                       const std::function<std::string()>& first_output);
  // "model.norm.weight on rank 1" of what is stored; empty where all is finite. Collective.
  std::string broken_state();

  std::string on_nonfinite_;
  parallel::ParallelModel& model_;
  const optim::Optimizer& optimizer_;
  std::function<void(const std::string& line)> log_;
  std::optional<optim::GradScaler> scaler_;
  int64_t skipped_ = 0;
};

}  // namespace am::train
