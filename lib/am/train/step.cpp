#include "am/train/step.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "am/optim/clip.h"
#include "am/parallel/sync_ctx.h"

namespace am::train {

Step::Step(const config::Plan& plan, parallel::ParallelModel& model, optim::AdamW& optimizer,
           PhaseObserver on_phase)
    : plan_(plan),
      model_(model),
      optimizer_(optimizer),
      on_phase_(std::move(on_phase)),
      sizes_(batch_sizes(plan, model.layout().mesh.sizes())) {}

void Step::over(const char* phase) const {
  if (on_phase_) on_phase_(phase);
}

// Forward and backward of one micro-batch; the sum of its label cross-entropies.
at::Tensor Step::run(MicroBatch batch, double loss_scale, bool last) {
  auto& data_parallel = model_.data_parallel();
  const auto sync = parallel::get_sync_ctx(data_parallel, plan_.strategy, /*is_optim_step=*/last,
                                           config::defers_gradient_sync(plan_.strategy));
  // Logits and batch are the loss's alone: held here they would outlive their use.
  const auto take = [](at::Tensor& tensor) { return std::exchange(tensor, {}); };
  const at::Tensor loss = model_.loss_sum(
      model_.forward(take(batch.ids_BT), take(batch.positions_BT)), take(batch.labels_BT));
  if (last) over("forward");
  (loss / (static_cast<double>(labels()) / loss_scale)).backward();
  data_parallel.finish_backward();
  if (last) over("backward");
  return loss.detach();
}

StepNumbers Step::backward(BatchSource& batches, int64_t step, double loss_scale) {
  model_.data_parallel().zero_grad();
  const auto doubles = at::TensorOptions(at::kDouble).device(model_.mesh().device());
  const at::Tensor loss_sum = at::zeros({1}, doubles);
  for (int64_t m = 0; m < sizes_.micro_batches; ++m) {
    loss_sum.add_(run(batches.read(step, m), loss_scale, m + 1 == sizes_.micro_batches));
  }
  return share(loss_sum);
}

StepNumbers Step::share(const at::Tensor& own_loss_sum) {
  const runtime::Group& replicas = model_.mesh().group("dp_cp");
  const at::Tensor loss_sum = own_loss_sum.clone();
  replicas.all_reduce(loss_sum);
  const at::Tensor squared_norm =
      optim::squared_norm(gradient_shards(model_), model_.mesh().group("world"));
  StepNumbers numbers;
  numbers.own_loss_sum = own_loss_sum;
  if (loss_sum.is_meta()) {
    numbers.grad_norm = 2.0 * plan_.train.max_grad_norm;
    return numbers;
  }
  numbers.loss_sum = loss_sum.item<double>();
  numbers.grad_norm = std::sqrt(squared_norm.item<double>());
  return numbers;
}

void Step::update(const StepNumbers& numbers, double loss_scale, double learning_rate) {
  const double factor =
      optim::clip_factor(numbers.grad_norm / loss_scale, plan_.train.max_grad_norm) / loss_scale;
  const std::vector<at::Tensor> gradients = trained_gradients(model_);
  if (factor != 1.0) {
    for (const at::Tensor& gradient : gradients) gradient.mul_(factor);
  }
  optimizer_.step(gradients, learning_rate);
  over("optimizer");
}

}  // namespace am::train
