// The device mesh: a layout, this process's place in it, and a live group per axis.
//
// It is a value that is passed in; several can live in one process. Groups with the same ranks
// share one communicator, groups of one rank have none.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "am/mesh/layout.h"
#include "am/runtime/group.h"
#include "am/runtime/world.h"

namespace am::runtime {

class DeviceMesh {
 public:
  // Collective: every rank of the world makes the same mesh. Throws Error(kPlan) when the layout's
  // world is not the world's size.
  DeviceMesh(const World& world, const mesh::MeshLayout& layout);

  int64_t rank() const { return rank_; }
  const mesh::MeshLayout& layout() const { return layout_; }
  // By the names of mesh::kGroupNames.
  const Group& group(std::string_view name) const;

 private:
  int64_t rank_;
  mesh::MeshLayout layout_;
  std::map<std::string, Group, std::less<>> groups_;
};

}  // namespace am::runtime
