#include "am/train/expert_balance.h"

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "am/base/error.h"

namespace am::train {

namespace {

// Returns the names of the routing biases. Each name maps to the index of the bias's layer among
// the layers with experts.
std::map<std::string, int64_t, std::less<>> correction_biases(const model::Inventory& inventory) {
  std::map<int, int64_t> number_of_layer;
  std::map<std::string, int64_t, std::less<>> biases;
  for (const model::ParameterSpec& parameter : inventory.parameters) {
    if (parameter.layer < 0 || !inventory.spec.layer(parameter.layer).router) continue;
    const auto next = static_cast<int64_t>(number_of_layer.size());
    const int64_t number = number_of_layer.try_emplace(parameter.layer, next).first->second;
    if (parameter.role == model::Role::kRouterCorrection) biases[parameter.name] = number;
  }
  return biases;
}

}  // namespace

void move_correction_biases(parallel::ParallelModel& model, std::span<const double> counts,
                            double rate) {
  const at::NoGradGuard no_grad;
  const auto biases = correction_biases(model.layout().inventory);
  const int64_t experts = model.config().moe->experts;
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
    const auto found = biases.find(owned.name);
    if (found == biases.end() || owned.value.numel() == 0) return;
    const auto first = static_cast<size_t>(found->second * experts);
    AM_ASSERT(first + static_cast<size_t>(experts) <= counts.size(), "fewer counts than experts");
    const std::span<const double> of_layer = counts.subspan(first, static_cast<size_t>(experts));
    const at::Tensor taken_E = at::tensor(at::ArrayRef<double>(of_layer.data(), of_layer.size()));
    const at::Tensor step_E = (taken_E.mean() - taken_E).sign_().mul_(rate);
    at::Tensor step = step_E.view(owned.shape);  // [E] or [1, E] for E experts
    for (size_t dim = 0; dim < owned.shape.size(); ++dim) {
      step = step.narrow(static_cast<int64_t>(dim), owned.box.offset[dim], owned.box.shape[dim]);
    }
    owned.value.add_(step.to(owned.value.options()));
  });
}

}  // namespace am::train
