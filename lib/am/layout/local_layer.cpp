#include "am/layout/local_layer.h"

#include <algorithm>

#include "am/base/number.h"

namespace am::layout {
namespace {

using model::Role;
using model::Space;

// Output and input width of a local weight, which is stored as [out, in] or [in, out]. In a tensor
// of stacked experts, these dims follow the dim of the experts. If one matrix joins the rows of all
// experts (ModuleSpec::joined), the widths are those of one expert. A vector has no input width
// (0).
struct LocalWidths {
  double out = 0.0;
  double in = 0.0;
};

LocalWidths widths(const model::ModuleSpec& module, const Shape& shape) {
  if (module.in == 0) return {as_double(shape.back()), 0.0};
  if (module.joined) return {as_double(module.out), as_double(module.in)};
  const auto last = as_double(shape[shape.size() - 1]);
  const auto before = as_double(shape[shape.size() - 2]);
  return module.in_out ? LocalWidths{last, before} : LocalWidths{before, last};
}

std::vector<double> slices_of(const model::ModuleSpec& module, const ParameterLayout& placed,
                              const mesh::MeshLayout& mesh, int64_t rank) {
  std::vector<double> lengths;
  if (placed.tp_slices.size() == module.slices.size()) {
    for (const mesh::Extent& extent : placed.tp_extents(mesh, rank)) {
      lengths.push_back(as_double(extent.size));
    }
    return lengths;
  }
  for (const model::Slice& slice : module.slices) lengths.push_back(as_double(slice.length));
  return lengths;
}

}  // namespace

LocalLayer::LocalLayer(const Layout& layout, int64_t rank, const model::Unit& unit)
    : spec_(layout.inventory.spec.layer(unit.layer)) {
  const Layout::ByRanks own = layout.by_ranks(unit.parameters, rank);
  std::vector<int> here = own.dense;
  here.insert(here.end(), own.experts.begin(), own.experts.end());
  for (const int index : here) {
    const auto at = static_cast<size_t>(index);
    const model::ParameterSpec& parameter = layout.inventory.parameters[at];
    const ParameterLayout& placed = layout.parameters[at];
    LocalModule& module = modules_[static_cast<size_t>(parameter.role)];
    const Shape shape = placed.tp_shape(layout.mesh, rank);
    if (shape.size() >= 2) module.numel += as_double(am::numel(shape));
    if (parameter.adapter != model::AdapterPart::kNone) {
      if (module.spec == nullptr || !module.spec->adapter.has_value()) continue;
      module.rank = as_double(module.spec->adapter->rank);
      module.adapts = module.adapts || placed.trainable;
      continue;
    }
    // All experts of a layer have equal sizes, so the first expert determines the module's widths.
    if (parameter.bias || module.spec != nullptr) continue;
    module.spec = spec_.find(parameter.role);
    module.trains = placed.trainable;
    const LocalWidths local = widths(*module.spec, shape);
    const auto style = layout.tp.parameters[at].style;
    const bool whole_output = style == model::TpStyle::kColwiseRep;
    module.out = whole_output ? as_double(module.spec->out) : local.out;
    module.in = local.in;
    module.gathers = placed.tp_dim.has_value() && style != model::TpStyle::kRowwise;
    module.slices = slices_of(*module.spec, placed, layout.mesh, rank);
  }
}

double LocalLayer::numel(std::initializer_list<Role> roles) const {
  double sum = 0.0;
  for (const Role role : roles) sum += (*this)[role].numel;
  return sum;
}

double LocalLayer::numel() const {
  double sum = 0.0;
  for (const LocalModule& module : modules_) sum += module.numel;
  return sum;
}

double LocalLayer::adapter_widths(std::initializer_list<Role> roles) const {
  double sum = 0.0;
  for (const Role role : roles) {
    const LocalModule& module = (*this)[role];
    if (!module.adapts) continue;
    sum += module.rank + (module.spec->adapter->dora ? module.out : 0.0);
  }
  return sum;
}

bool LocalLayer::trains_in_attention() const {
  using enum Role;
  const auto roles = {kInputNorm,        kQuery,         kKey,     kValue,        kQkv,
                      kQueryDown,        kQueryDownNorm, kQueryUp, kKeyValueDown, kKeyValueUp,
                      kKeyValueDownNorm, kQueryNorm,     kKeyNorm};
  return std::any_of(roles.begin(), roles.end(),
                     [&](Role role) { return (*this)[role].trains || (*this)[role].adapts; });
}

double LocalLayer::trained_readers(bool attention, bool gathering) const {
  return as_double(std::count_if(modules_.begin(), modules_.end(), [&](const LocalModule& each) {
    if (each.spec == nullptr || each.spec->in == 0 || each.spec->from != Space::kHidden)
      return false;
    const Space to = each.spec->to;
    const bool to_attention = to == Space::kHeads || to == Space::kKeyHeads || to == Space::kLatent;
    return each.reads_input() && to_attention == attention && each.gathers == gathering;
  }));
}

}  // namespace am::layout
