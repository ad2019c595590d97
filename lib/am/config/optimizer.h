// What [optimizer] means: its keys that may be absent, and the state that a parameter has.
#pragma once

#include <span>
#include <string_view>

#include "am/config/plan.h"

namespace am::config {

// PyTorch's defaults: none of sgd; 0.95, Nesterov's, of muon.
double momentum_of(const OptimizerSection& optimizer);
bool nesterov_of(const OptimizerSection& optimizer);

// PyTorch's names of the tensors, each as large as the parameter, that it is updated with:
// "exp_avg", "exp_avg_sq"; "momentum_buffer". `orthogonalized`: the parameter is one of muon's
// matrices.
std::span<const std::string_view> state_names(const OptimizerSection& optimizer,
                                              bool orthogonalized);

}  // namespace am::config
