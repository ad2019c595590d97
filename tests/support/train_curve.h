// Trains a plan on ranks that are threads of this process, and returns its losses, gradient norms
// and learning rates.
#pragma once

#include <cstdint>
#include <vector>

#include "am/config/plan.h"

namespace am::test {

// Losses, gradient norms and learning rates, one entry per step.
struct Curve {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> lrs;
};

// Runs train.max_steps steps and returns rank 0's values. Writes no files.
Curve train_curve(const config::Plan& plan, int64_t ranks);

}  // namespace am::test
