#include "am/optim/elementwise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "am/base/error.h"
#include "am/config/optimizer.h"
#include "am/tensor/memory_meter.h"

namespace am::optim {

namespace {

std::vector<const char*> names_of(const ElementwiseOptions& options) {
  if (options.formula != Formula::kSgd) return {"exp_avg", "exp_avg_sq"};
  if (options.momentum == 0.0) return {};
  return {"momentum_buffer"};
}

}  // namespace

Elementwise::Elementwise(const std::vector<at::Tensor>& flats,
                         const std::vector<ParameterRun>& runs, const ElementwiseOptions& options)
    : options_(options), names_(names_of(options)) {
  const tensor::MemoryUse use(options.offloaded ? tensor::TensorUse::kHost
                                                : tensor::TensorUse::kOptimizer);
  for (const ParameterRun& run : runs) {
    if (std::find(distinct_.begin(), distinct_.end(), run.options) == distinct_.end()) {
      distinct_.push_back(run.options);
    }
    runs_.push_back({run, run.range.of(flats), {}});
    for (size_t i = 0; i < names_.size(); ++i) {
      runs_.back().states.push_back(at::zeros_like(runs_.back().parameter));
    }
  }
}

Elementwise::Lists Elementwise::lists_of(const std::vector<at::Tensor>& gradients,
                                         const layout::OptimizerOptions& options) const {
  Lists lists;
  for (const Run& run : runs_) {
    const FlatRange& range = run.what.range;
    AM_ASSERT(range.flat < gradients.size(), "each flat tensor needs a gradient");
    const at::Tensor& gradient = gradients[range.flat];
    if (run.what.options != options || !gradient.defined() || range.length == 0) continue;
    lists.parameters.push_back(run.parameter);
    lists.gradients.push_back(range.of(gradient));
    for (size_t i = 0; i < names_.size(); ++i) lists.states[i].push_back(run.states[i]);
  }
  return lists;
}

bool Elementwise::scales() const { return !runs_.empty() && !runs_.front().parameter.is_cpu(); }

void Elementwise::update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
                         double factor) {
  for (const layout::OptimizerOptions& options : distinct_) {
    const Lists lists = lists_of(gradients, options);
    if (lists.parameters.empty()) continue;
    run_kernel(lists, options.weight_decay, config::parameter_lr(lr, options_.lr, options.lr),
               number, factor);
  }
}

void Elementwise::run_kernel(const Lists& lists, double weight_decay, double lr, int64_t number,
                             double factor) const {
  const auto on_device = at::TensorOptions(at::kFloat).device(lists.parameters.front().device());
  // ATen's kernels divide the gradients by grad_scale, in place, so grad_scale is the inverse of
  // `factor`.
  std::optional<at::Tensor> grad_scale;
  if (factor != 1.0) grad_scale = at::full({}, 1.0 / factor, on_device);
  if (options_.formula == Formula::kSgd) {
    // is_first_step can be false even in the first step: the momentum buffer starts as zeros, so
    // the first momentum equals the gradient.
    at::_fused_sgd_(lists.parameters, lists.gradients, lists.states[0], weight_decay,
                    options_.momentum, lr, /*dampening=*/0.0, options_.nesterov,
                    /*maximize=*/false, /*is_first_step=*/false, grad_scale);
    return;
  }
  // ATen's kernels read the step number from one float32 tensor per parameter.
  const at::Tensor step = at::full({}, static_cast<float>(number), on_device);
  const std::vector<at::Tensor> steps(lists.parameters.size(), step);
  const auto run = [&](const auto& kernel) {
    kernel(lists.parameters, lists.gradients, lists.states[0], lists.states[1], at::TensorList{},
           steps, lr, options_.beta1, options_.beta2, weight_decay, options_.eps,
           /*amsgrad=*/false, /*maximize=*/false, grad_scale);
  };
  if (options_.formula == Formula::kAdam) {
    run([](const auto&... arguments) { at::_fused_adam_(arguments...); });
  } else {
    run([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
  }
}

std::vector<StateTensor> Elementwise::state_of(const FlatRange& range) const {
  std::vector<StateTensor> found;
  for (const Run& run : runs_) {
    const FlatRange& whole = run.what.range;
    if (!whole.contains(range)) continue;
    for (size_t i = 0; i < names_.size(); ++i) {
      found.push_back(
          {names_[i], run.states[i].narrow(0, range.offset - whole.offset, range.length)});
    }
    break;
  }
  return found;
}

}  // namespace am::optim
