// Values that follow from the section [optimizer]: its optional keys with their defaults, the
// learning rate of a parameter, and the names of a parameter's optimizer states.
#pragma once

#include <span>
#include <string_view>

#include "am/config/plan.h"

namespace am::config {

// Return the value of the key momentum or nesterov. If the key is absent, return PyTorch's default:
// no momentum for sgd, 0.95 with Nesterov for muon.
double momentum_of(const OptimizerSection& optimizer);
bool nesterov_of(const OptimizerSection& optimizer);

// Returns a parameter's learning rate in a step: `lr` * `own_peak` / `peak`. `lr`: the schedule's
// learning rate in this step; `peak`: the schedule's peak; `own_peak`: the parameter's peak.
double parameter_lr(double lr, double peak, double own_peak);

// Name of the optimizer state that holds the moving average of a parameter (optimizer.ema_decay).
inline constexpr std::string_view kAverageState = "ema";

// Returns the names of a parameter's optimizer states: PyTorch's "exp_avg" and "exp_avg_sq", or
// "momentum_buffer", or none; and kAverageState if optimizer.ema_decay is above 0. Each state is a
// tensor of the parameter's shape. `orthogonalized`: whether muon updates the parameter with
// orthogonalised momentum, not with AdamW.
std::span<const std::string_view> state_names(const OptimizerSection& optimizer,
                                              bool orthogonalized);

}  // namespace am::config
