// Derived values of [optimizer]: defaults of its optional keys, and the optimizer state of a
// parameter.
#pragma once

#include <span>
#include <string_view>

#include "am/config/plan.h"

namespace am::config {

// Return the key's value, or if it is absent PyTorch's default: no momentum for sgd; 0.95 with
// Nesterov for muon.
double momentum_of(const OptimizerSection& optimizer);
bool nesterov_of(const OptimizerSection& optimizer);

// Returns PyTorch's names of a parameter's state tensors, each of the parameter's size: "exp_avg",
// "exp_avg_sq"; "momentum_buffer". `orthogonalized`: the parameter is updated by muon as a matrix.
std::span<const std::string_view> state_names(const OptimizerSection& optimizer,
                                              bool orthogonalized);

}  // namespace am::config
