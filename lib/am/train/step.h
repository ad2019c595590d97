// Runs one training step: forward and backward of its micro-batches, the exchange of loss, gradient
// norm and other numbers between ranks, and the update. The trainer runs steps on data; the dry run
// runs a step on the meta device.
//
//   Step step(plan, model, optimizer, observer);
//   const StepNumbers numbers = step.backward(batches, index, loss_scale);
//   step.update(numbers, loss_scale, learning_rate);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "am/config/plan.h"
#include "am/observe/metrics.h"
#include "am/observe/rank_times.h"
#include "am/optim/optimizer.h"
#include "am/parallel/parallel_model.h"
#include "am/train/setup.h"

namespace am::train {

using parallel::MicroBatch;

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Returns this rank's micro-batch of an optimizer step; both indices count from 0.
  virtual MicroBatch read(int64_t step, int64_t micro_batch) = 0;
  // Returns the number of labels of the step's global batch that the loss counts. All ranks compute
  // the same number, without communication.
  virtual int64_t labels(int64_t step) = 0;
};

// Concatenates this rank's micro-batches of several consecutive steps. `of_each_step`: number of
// micro-batches per step.
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

// Values that a rank sends to all ranks in a step. `times` is sent only if a rank set `compare` in
// the step before.
struct StepReport {
  int64_t peak_memory_bytes = 0;    // tensor::peak_memory_bytes of the rank's device
  int64_t peak_reserved_bytes = 0;  // tensor::peak_reserved_bytes of the rank's device
  bool stop = false;                // request to end the job after this step
  bool save = false;                // request for a checkpoint after this step
  bool visit = false;               // request to call InspectionHook::visit() after this step
  bool compare = false;             // request that the next step exchanges `times`
  observe::RankTimes times;         // the rank's average times per step since the last exchange
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Called after each phase of a step. Phases are "forward" and "backward" of the last micro-batch,
  // and "optimizer".
  virtual void phase_over(const char* /*phase*/) {}
  // Returns the values that this rank sends to all ranks. Called after backward.
  virtual StepReport report() { return {}; }
};

// Results of a step's backward. All values except own_loss_sum are equal on all ranks.
struct StepNumbers {
  int64_t labels = 0;      // number of labels of the global batch that the loss counts
  double loss_sum = 0.0;   // sum of cross-entropies over these labels
  double grad_norm = 0.0;  // 2-norm of the gradients, which contain the loss scale
  // The largest memory peaks over all ranks. `stop`, `save` and `visit` are true if at least one
  // rank requests them. `compare` and `times` are not set.
  StepReport of_any_rank;
  // The number of tokens of the global batch that were routed to each expert, layer after layer;
  // empty for a model without experts.
  std::vector<double> expert_counts = {};
  std::optional<observe::ExpertLoad> expert_load = {};
  std::optional<double> aux_loss = {};  // auxiliary loss of experts.balancing = "sequence"
  // Average times per step of each rank; empty unless a rank set `compare` in the step before.
  std::vector<observe::RankTimes> times = {};
  at::Tensor own_loss_sum;  // sum of cross-entropies over this rank's labels: [1], float64
};

class Step {
 public:
  // `plan.train.global_batch_size` must be set (with_batch in resume.h). All four arguments must
  // outlive this object.
  Step(const config::Plan& plan, parallel::ParallelModel& model, optim::Optimizer& optimizer,
       StepObserver& observer);

  // Returns the number of this rank's micro-batches per step.
  int64_t micro_batches() const { return sizes_.micro_batches; }
  // Returns the number of tokens of the global batch.
  int64_t tokens() const { return sizes_.global_batch * plan_.train.seq_len; }

  // Computes the gradients of all micro-batches of step `step` (counted from 0), reduced over the
  // ranks and multiplied by `loss_scale`. Exchanges the step's numbers in one message, and waits
  // until the device has computed these numbers. On the meta device, gradients have no values; the
  // returned norm is then twice train.max_grad_norm, so update() clips. Collective.
  StepNumbers backward(BatchSource& batches, int64_t step, double loss_scale = 1.0);

  // Clips the gradients to train.max_grad_norm, divides them by the loss scale, and steps the
  // optimizer. With experts.balancing = "bias", also updates the routing biases.
  void update(const StepNumbers& numbers, double loss_scale, double learning_rate);

  // Must be called instead of update() if a step makes no update.
  void leave_out_update() { observer_.phase_over("optimizer"); }

 private:
  StepNumbers share(const at::Tensor& own_loss_sum);
  double balance_factor() const;

  const config::Plan& plan_;
  parallel::ParallelModel& model_;
  optim::Optimizer& optimizer_;
  StepObserver& observer_;
  BatchSizes sizes_;
  bool compares_ = false;  // whether the next message contains the ranks' times
};

}  // namespace am::train
