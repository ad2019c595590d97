// A pipeline stage on its own: what it computes, and a layout with its parameters alone, which the
// runtime builds its part of the model from as it builds a whole one.
//
//   const Layout stage = stage_layout(layout, 1);
//   nn::Decoder decoder(config, stage.inventory, stage_range(layout, 1));
#pragma once

#include <cstdint>
#include <vector>

#include "am/model/inventory.h"
#include "am/planner/layout.h"

namespace am::planner {

// Decoder layers [first, end), with what is before the first one and after the last.
struct StageRange {
  int64_t first = 0;
  int64_t end = 0;
  bool embedding = true;
  bool head = true;  // and the final norm

  static StageRange whole(int64_t layers) { return {0, layers, true, true}; }
};

// Stages as ParameterLayout counts them.
StageRange stage_range(const Layout& layout, int stage);

// The parameters of a stage, and their units. Where the head is the embedding's weight, the last
// stage has that too: each of the two has a copy.
Layout stage_layout(const Layout& layout, int stage);

// The units of a stage's inventory: those of the whole model that have parameters there.
std::vector<model::Unit> stage_units(const model::Inventory& inventory);

}  // namespace am::planner
