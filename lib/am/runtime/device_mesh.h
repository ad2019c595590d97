// The device mesh: a layout, this process's place in it, and a live group per axis.
//
// It is a value that is passed in; several can live in one process. Groups with the same ranks
// share one communicator, groups of one rank have none.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "am/mesh/layout.h"
#include "am/runtime/channel.h"
#include "am/runtime/group.h"
#include "am/runtime/world.h"

namespace am::runtime {

class DeviceMesh {
 public:
  // Collective: every rank of the world makes the same mesh. Throws Error(kPlan) when the layout's
  // world is not the world's size. `device`: where tensors live instead of World::device, such as
  // the meta device, on which shapes are computed and nothing is stored.
  DeviceMesh(const World& world, const mesh::MeshLayout& layout,
             std::optional<c10::Device> device = std::nullopt);

  const World& world() const { return world_; }
  int64_t rank() const { return rank_; }
  // Where this rank's tensors live.
  c10::Device device() const { return device_; }
  const mesh::MeshLayout& layout() const { return layout_; }
  // By the names of mesh::kGroupNames.
  const Group& group(std::string_view name) const;
  // Collective: the block of `size` consecutive ranks of a group that this rank is in. Throws
  // Error(kPlan) where `size` does not divide the group's.
  Group split(std::string_view name, int64_t size) const;
  // Collective in a group: one-way connections between its ranks, by their indices; those that this
  // rank is an end of. All ranks ask for the same, in any order.
  Channels channels(std::string_view name, const std::set<Hop>& hops) const;

 private:
  World world_;
  int64_t rank_;
  c10::Device device_;
  mesh::MeshLayout layout_;
  std::map<std::string, Group, std::less<>> groups_;
};

}  // namespace am::runtime
