#include "am/layout/stage_layout.h"

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/model/spec.h"

namespace am::layout {

StageRange stage_range(const Layout& layout, int stage) {
  StageRange range;
  range.embedding = stage == 0;
  range.head = stage + 1 == static_cast<int>(layout.stage_owners.size());
  bool any = false;
  int64_t layers = 0;  // number of layers of all stages
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const int64_t layer = layout.inventory.parameters[i].layer;
    layers = std::max(layers, layer + 1);
    if (layer < 0 || layout.parameters[i].stage != stage) continue;
    range.first = any ? std::min(range.first, layer) : layer;
    range.end = std::max(range.end, layer + 1);
    any = true;
  }
  AM_ASSERT(any || range.embedding || range.head, "a stage without modules");
  if (!any) range.first = range.end = range.embedding ? 0 : layers;
  return range;
}

Layout stage_layout(const Layout& layout, int stage) {
  Layout own = layout;
  own.inventory.parameters.clear();
  own.parameters.clear();
  own.tp.parameters.clear();
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const model::ParameterSpec& spec = layout.inventory.parameters[i];
    if (!layout.parameters[i].in_stage(stage)) continue;
    own.inventory.parameters.push_back(spec);
    own.parameters.push_back(layout.parameters[i]);
    own.parameters.back().tied_copy = layout.parameters[i].stage != stage;
    own.tp.parameters.push_back(layout.tp.parameters[i]);
  }
  own.units = stage_units(own.inventory);
  for (size_t u = 0; u < own.units.size(); ++u) {
    for (const int index : own.units[u].parameters) {
      own.parameters[static_cast<size_t>(index)].unit = static_cast<int>(u);
    }
  }
  return own;
}

std::vector<model::Unit> stage_units(const model::Inventory& inventory) {
  std::vector<model::Unit> units = model::shard_units(inventory);
  std::erase_if(units, [](const model::Unit& unit) { return unit.parameters.empty(); });
  return units;
}

}  // namespace am::layout
