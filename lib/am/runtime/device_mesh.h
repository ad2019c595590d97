// The device mesh: the arrangement of the ranks (mesh::MeshLayout), this process's rank, and the
// groups of this rank (mesh::kGroupNames).
//
// A mesh is passed as a value; one process may have several meshes. If groups of mesh::kGroupNames
// have equal ranks, they share one communicator. Groups of one rank have no communicator.
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
  // Collective: every rank of the world must create the same mesh. Throws Error(kPlan) if the
  // layout's world size differs from the world's. `device`: the device of this rank's tensors, by
  // default World::device(). On the meta device, training computes only shapes.
  DeviceMesh(const World& world, const mesh::MeshLayout& layout,
             std::optional<c10::Device> device = std::nullopt);

  const World& world() const { return world_; }
  int64_t rank() const { return rank_; }
  // Returns the device of this rank's tensors.
  c10::Device device() const { return device_; }
  const mesh::MeshLayout& layout() const { return layout_; }
  // Returns a group by its name in mesh::kGroupNames.
  const Group& group(std::string_view name) const;
  // Collective in a group: divides the group into blocks of `size` ranks with consecutive indices,
  // and returns the block that contains this rank. Throws Error(kPlan) if `size` does not divide
  // the group's size.
  Group split(std::string_view name, int64_t size) const;
  // Collective in a group: creates a one-way channel for each hop, and returns those channels that
  // begin or end at this rank. All ranks of the group must pass equal sets of hops.
  Channels channels(std::string_view name, const std::set<Hop>& hops) const;

 private:
  World world_;
  int64_t rank_;
  c10::Device device_;
  mesh::MeshLayout layout_;
  std::map<std::string, Group, std::less<>> groups_;
};

}  // namespace am::runtime
