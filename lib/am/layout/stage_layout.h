// One pipeline stage: its range of layers, and a layout with only the stage's parameters. From this
// layout, the runtime builds the stage with the same code that builds a whole model.
//
//   const Layout stage = stage_layout(layout, 1);
//   const StageRange range = stage_range(layout, 1);   // layers of the stage, for nn::Decoder
#pragma once

#include <cstdint>
#include <vector>

#include "am/layout/layout.h"
#include "am/model/inventory.h"

namespace am::layout {

// Decoder layers [first, end), and whether the stage has the modules before the first layer and
// after the last. A stage that is the embedding or the head alone has no layers.
struct StageRange {
  int64_t first = 0;
  int64_t end = 0;
  bool embedding = true;
  bool head = true;  // the head and the final norm

  static StageRange whole(int64_t layers) { return {0, layers, true, true}; }
};

// Returns the layers of a stage. Stages are numbered as in ParameterLayout, including virtual
// stages.
StageRange stage_range(const Layout& layout, int stage);

// Returns a layout with only the parameters of a stage and with their units. If the head is tied to
// the embedding, the last stage's layout includes a copy of the embedding's weight.
Layout stage_layout(const Layout& layout, int stage);

// Returns the units that have parameters in `inventory`, the inventory of a stage.
std::vector<model::Unit> stage_units(const model::Inventory& inventory);

}  // namespace am::layout
