// Draws random layouts: a small model of tests/data/hf under any axes, schedule and plan keys that
// the rules accept and am-run can run.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "am/config/plan.h"
#include "am/model/config.h"

namespace am::test {

struct RandomLayout {
  std::string name;  // "mixtral, 4 layers: pp 2, shards 2, fsdp2, gpipe of 2, 4 x 1 of 16"
  config::Plan plan;
  model::ModelConfig model;
  int64_t drawn = 1;  // number of layouts that were drawn, including the refused ones
};

// Draws layouts until the rules accept one that am-run can run. Equal states of the generator yield
// equal layouts on all machines.
RandomLayout draw_layout(std::mt19937_64& random);

}  // namespace am::test
