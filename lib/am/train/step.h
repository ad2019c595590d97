// One training step: forward and backward of its micro-batches, what the ranks tell each other
// about it, and the update. The trainer runs it on data, the dry run on the meta device.
//
//   Step step(plan, model, optimizer);
//   const StepNumbers numbers = step.backward(batches, index, loss_scale);
//   step.update(numbers, loss_scale, learning_rate);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "am/config/plan.h"
#include "am/observe/metrics.h"
#include "am/optim/optimizer.h"
#include "am/parallel/parallel_model.h"
#include "am/train/setup.h"

namespace am::train {

using parallel::MicroBatch;

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // This rank's micro-batch of an optimizer step (both from 0).
  virtual MicroBatch read(int64_t step, int64_t micro_batch) = 0;
};

// Those of some steps, one after the other.
class BatchesOfSteps : public parallel::MicroBatches {
 public:
  BatchesOfSteps(BatchSource& source, int64_t first_step, int64_t steps, int64_t of_each_step)
      : source_(source), first_step_(first_step), steps_(steps), of_each_step_(of_each_step) {}

  int64_t count() const override { return steps_ * of_each_step_; }
  MicroBatch read(int64_t m) override {
    return source_.read(first_step_ + m / of_each_step_, m % of_each_step_);
  }

 private:
  BatchSource& source_;
  int64_t first_step_;
  int64_t steps_;
  int64_t of_each_step_;
};

// What a rank tells the others with every step.
struct StepReport {
  int64_t peak_memory_bytes = 0;
  int64_t peak_reserved_bytes = 0;  // of a GPU's allocator
  bool stop = false;                // asks for the end of the job after this step
  bool save = false;                // asks for a checkpoint after this step
  bool visit = false;               // a guest wants to look around after this step: guest.h
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // What part of a step is over: "forward" and "backward" of its last micro-batch, "optimizer".
  virtual void phase_over(const char* /*phase*/) {}
  // Asked when the gradients are there.
  virtual StepReport report() { return {}; }
};

// The same on every rank, but for own_loss_sum.
struct StepNumbers {
  double loss_sum = 0.0;   // cross-entropies of the global batch's labels
  double grad_norm = 0.0;  // 2-norm of the gradients as they are stored: times the loss scale
  StepReport of_any_rank;  // the largest peaks; what any rank asks for
  // Of a model with experts: how many tokens of the global batch took each, layer after layer.
  std::vector<double> expert_counts = {};
  std::optional<observe::ExpertLoad> expert_load = {};
  std::optional<double> aux_loss = {};  // under experts.balancing = "sequence"
  at::Tensor own_loss_sum;  // of this rank's labels: [1], float64, on the model's device
};

class Step {
 public:
  // `plan` with its batch filled in. All four must outlive it.
  Step(const config::Plan& plan, parallel::ParallelModel& model, optim::Optimizer& optimizer,
       StepObserver& observer);

  int64_t micro_batches() const { return sizes_.micro_batches; }  // of a step, on this rank
  // Labels of the global batch: what the loss is divided by.
  int64_t labels() const { return sizes_.global_batch * plan_.train.seq_len; }

  // Gradients of all micro-batches, reduced over the ranks and multiplied by `loss_scale`, and one
  // message about them; collective. The host waits for the device once, for that message. On the
  // meta device the norm is one that update() clips.
  StepNumbers backward(BatchSource& batches, int64_t step, double loss_scale = 1.0);

  // Clips to train.max_grad_norm, takes the loss scale out, and steps the optimizer.
  void update(const StepNumbers& numbers, double loss_scale, double learning_rate);

  // The end of a step whose update was left out.
  void leave_out_update() { observer_.phase_over("optimizer"); }

 private:
  StepNumbers share(const at::Tensor& own_loss_sum);
  double balance_factor() const;

  const config::Plan& plan_;
  parallel::ParallelModel& model_;
  optim::Optimizer& optimizer_;
  StepObserver& observer_;
  BatchSizes sizes_;
};

}  // namespace am::train
