#include "am/config/optimizer.h"

#include <array>

namespace am::config {

double momentum_of(const OptimizerSection& optimizer) {
  return optimizer.momentum.value_or(optimizer.name == "muon" ? 0.95 : 0.0);
}

bool nesterov_of(const OptimizerSection& optimizer) {
  return optimizer.nesterov.value_or(optimizer.name == "muon");
}

double parameter_lr(double lr, double peak, double own_peak) {
  return own_peak == peak ? lr : lr / peak * own_peak;
}

std::span<const std::string_view> state_names(const OptimizerSection& optimizer,
                                              bool orthogonalized) {
  static constexpr std::array<std::string_view, 1> kMomentum = {"momentum_buffer"};
  static constexpr std::array<std::string_view, 2> kAdam = {"exp_avg", "exp_avg_sq"};
  if (optimizer.name == "sgd") {
    if (momentum_of(optimizer) > 0.0) return kMomentum;
    return {};
  }
  if (optimizer.name == "muon" && orthogonalized) return kMomentum;
  return kAdam;
}

}  // namespace am::config
