#include "am/optim/adamw.h"

#include <ATen/ATen.h>

#include <utility>

#include "am/base/error.h"
#include "am/tensor/memory_meter.h"

namespace am::optim {

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  const tensor::MemoryUse use(options.offloaded ? tensor::TensorUse::kHost
                                                : tensor::TensorUse::kOptimizer);
  for (const auto& parameter : parameters_) {
    exp_avg_.push_back(at::zeros_like(parameter));
    exp_avg_sq_.push_back(at::zeros_like(parameter));
  }
}

void AdamW::step(const std::vector<at::Tensor>& gradients, double lr) {
  AM_ASSERT(gradients.size() == parameters_.size(), "a gradient per parameter");
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> given;
  std::vector<at::Tensor> exp_avg;
  std::vector<at::Tensor> exp_avg_sq;
  std::vector<at::Tensor> steps;
  at::Tensor number;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!gradients[i].defined() || parameters_[i].numel() == 0) continue;
    if (!number.defined()) {
      // The kernel takes the number of the step it makes, as a float32 tensor each.
      number = at::full({}, static_cast<float>(steps_ + 1),
                        at::TensorOptions(at::kFloat).device(parameters_[i].device()));
    }
    parameters.push_back(parameters_[i]);
    given.push_back(gradients[i]);
    exp_avg.push_back(exp_avg_[i]);
    exp_avg_sq.push_back(exp_avg_sq_[i]);
    steps.push_back(number);
  }
  if (!parameters.empty()) {
    at::_fused_adamw_(parameters, given, exp_avg, exp_avg_sq, {}, steps, lr, options_.beta1,
                      options_.beta2, options_.weight_decay, options_.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  }
  ++steps_;
}

}  // namespace am::optim
