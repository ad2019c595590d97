#include "am/job/shard_difference.h"

#include <map>
#include <tuple>

#include "am/base/text.h"

namespace am::job {
namespace {

Placed placed_in(const layout::Layout& layout, const layout::ParameterLayout& parameter) {
  const int64_t pp = layout.stage_owners[static_cast<size_t>(parameter.stage)];
  const int64_t rank = layout.mesh.rank({pp, 0, 0, 0, 0});
  std::vector<std::string> parts;
  for (const auto& [axis, placement] : parameter.placements(layout.mesh)) {
    parts.push_back(cat(axis, ": ", mesh::to_string(placement)));
  }
  return {parameter.own_shape(layout.mesh, rank), parts.empty() ? "whole" : join(parts, ", ")};
}

}  // namespace

bool same_model(const layout::Layout& a, const layout::Layout& b) {
  if (a.parameters.size() != b.parameters.size()) return false;
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    if (a.parameters[i].name != b.parameters[i].name) return false;
    if (a.parameters[i].shape != b.parameters[i].shape) return false;
  }
  return true;
}

std::vector<ShardDifference> shard_differences(const layout::Layout& a, const layout::Layout& b) {
  std::vector<ShardDifference> out;
  std::map<std::tuple<std::string, Shape, Shape, Shape, std::string, std::string>, size_t> known;
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    Placed in_a = placed_in(a, a.parameters[i]);
    Placed in_b = placed_in(b, b.parameters[i]);
    if (in_a.local == in_b.local && in_a.placed == in_b.placed) continue;
    const model::ParameterSpec& spec = a.inventory.parameters[i];
    const std::string pattern = model::any_layer_name(spec.name, spec.layer);
    const auto [at, fresh] = known.emplace(
        std::tuple{pattern, spec.shape, in_a.local, in_b.local, in_a.placed, in_b.placed},
        out.size());
    if (fresh) {
      out.push_back({pattern, 1, spec.shape, std::move(in_a), std::move(in_b)});
    } else {
      ++out[at->second].times;
    }
  }
  return out;
}

}  // namespace am::job
