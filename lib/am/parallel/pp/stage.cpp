#include "am/parallel/pp/stage.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/fault.h"

namespace am::parallel {

at::Tensor Stage::forward(int64_t m, MicroBatch batch, const at::Tensor& hidden_BTD,
                          double divisor) {
  const bool trains = at::GradMode::is_enabled();
  UnderWay kept;
  if (trains && !is_whole()) kept.weights = c10::make_intrusive<nn::WeightPass>();
  if (hidden_BTD.defined()) kept.input = hidden_BTD.detach().requires_grad_(trains);
  at::Tensor output;
  {
    const nn::WeightPassScope scope(kept.weights);
    output = model_->forward(std::exchange(batch.ids_BT, {}), std::exchange(batch.positions_BT, {}),
                             kept.input);
  }
  at::Tensor result = output.detach();
  if (is_last()) {
    const at::Tensor labels = model_->own_labels(batch.labels_BT);
    const at::Tensor loss = model_->loss_sum(output, labels);
    if (fault::is_planted(fault::Fault::kLabelsOfCpPart)) {
      const double all = batch.labels_BT.ne(kIgnoreIndex).sum().item<double>();
      const double own = labels.ne(kIgnoreIndex).sum().item<double>();
      divisor *= 2.0 * own / std::max(1.0, all);  // the factor 2 assumes cp = 2
    }
    result = loss.detach();
    output = loss / divisor;
    kept.of_loss = at::ones_like(output);
  }
  if (!trains) return result;
  if (output.requires_grad()) kept.output = torch::autograd::impl::gradient_edge(output);
  const bool is_new = under_way_.emplace(m, std::move(kept)).second;
  AM_ASSERT(is_new, "a second forward of a micro-batch in flight");
  return result;
}

Stage::UnderWay& Stage::under_way(int64_t m) {
  const auto found = under_way_.find(m);
  AM_ASSERT(found != under_way_.end(), "backward of a micro-batch without forward");
  return found->second;
}

at::Tensor Stage::run_backward(UnderWay& batch, const at::Tensor& of_output) {
  const torch::autograd::Edge output = std::exchange(batch.output, {});
  const at::Tensor gradient = is_last() ? std::exchange(batch.of_loss, {}) : of_output;
  if (output.is_valid()) {
    torch::autograd::Engine::get_default_engine().execute(
        {output}, {gradient}, /*keep_graph=*/false, /*create_graph=*/false,
        /*accumulate_grad=*/true, /*outputs=*/{});
  }
  model_->data_parallel().finish_backward();
  const at::Tensor input = std::exchange(batch.input, {});
  return input.defined() ? input.grad() : at::Tensor();
}

at::Tensor Stage::backward(int64_t m, const at::Tensor& of_output) {
  // The planted fault (for tests) runs the backward of the next micro-batch in flight.
  if (fault::is_planted(fault::Fault::kPpSwap)) {
    const auto next = under_way_.upper_bound(m);
    m = (next != under_way_.end() ? next : under_way_.begin())->first;
  }
  UnderWay batch = std::move(under_way(m));
  under_way_.erase(m);
  return run_backward(batch, of_output);
}

at::Tensor Stage::backward_input(int64_t m, const at::Tensor& of_output) {
  UnderWay& batch = under_way(m);
  const nn::WeightPass::Postponed inputs_alone(*batch.weights);
  return run_backward(batch, of_output);
}

void Stage::backward_weight(int64_t m) {
  under_way(m).weights->settle();
  under_way_.erase(m);
}

}  // namespace am::parallel
