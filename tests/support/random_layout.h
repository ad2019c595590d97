// Random layouts: any family's small model under any axes, schedule and keys that the rules accept.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "am/config/plan.h"
#include "am/model/config.h"

namespace am::test {

struct RandomLayout {
  std::string name;  // "mixtral, 4 layers: pp 2, fsdp 2, zbv_zero_bubble, full"
  config::Plan plan;
  model::ModelConfig model;
  int64_t drawn = 1;  // number of draws, including refused ones
};

// Returns the same layout for the same generator state, on any machine.
RandomLayout draw_layout(std::mt19937_64& random);

}  // namespace am::test
