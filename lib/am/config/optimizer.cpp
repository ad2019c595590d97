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
  static constexpr std::array<std::string_view, 2> kMomentum = {"momentum_buffer", kAverageState};
  static constexpr std::array<std::string_view, 3> kAdam = {"exp_avg", "exp_avg_sq", kAverageState};
  std::span<const std::string_view> names = kAdam;
  if (optimizer.name == "sgd" || (optimizer.name == "muon" && orthogonalized)) names = kMomentum;
  if (optimizer.name == "sgd" && momentum_of(optimizer) == 0.0) names = names.last(1);
  return optimizer.ema_decay > 0.0 ? names : names.first(names.size() - 1);
}

}  // namespace am::config
