#include "am/config/optimizer.h"

namespace am::config {

double momentum_of(const OptimizerSection& optimizer) {
  return optimizer.momentum.value_or(optimizer.name == "muon" ? 0.95 : 0.0);
}

bool nesterov_of(const OptimizerSection& optimizer) {
  return optimizer.nesterov.value_or(optimizer.name == "muon");
}

std::vector<std::string> state_names(const OptimizerSection& optimizer, bool orthogonalized) {
  if (optimizer.name == "sgd") {
    return momentum_of(optimizer) > 0.0 ? std::vector<std::string>{"momentum_buffer"}
                                        : std::vector<std::string>{};
  }
  if (optimizer.name == "muon" && orthogonalized) return {"momentum_buffer"};
  return {"exp_avg", "exp_avg_sq"};
}

}  // namespace am::config
