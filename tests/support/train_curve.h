// What every step of a plan's training says, on ranks of this process.
#pragma once

#include <cstdint>
#include <vector>

#include "am/config/plan.h"

namespace am::test {

// By step.
struct Curve {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> lrs;
};

// train.max_steps steps; what rank 0 says of them. Nothing is written.
Curve train_curve(const config::Plan& plan, int64_t ranks);

}  // namespace am::test
