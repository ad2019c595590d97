#include "am/runtime/device_mesh.h"

#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::runtime {

DeviceMesh::DeviceMesh(const World& world, const mesh::MeshLayout& layout,
                       std::optional<c10::Device> device)
    : rank_(world.rank()), device_(device.value_or(world.device())), layout_(layout) {
  if (world.size() != layout.world_size()) {
    throw Error(ErrorKind::kPlan, cat("the plan's mesh has ", layout.world_size(),
                                      " ranks, but the world has ", world.size()));
  }
  const std::string mesh = world.unique_name("mesh");  // of a world with several
  std::map<std::vector<int64_t>, Group> made;
  for (const std::string_view name : mesh::kGroupNames) {
    std::vector<int64_t> ranks = layout.group(rank_, name);
    auto known = made.find(ranks);
    if (known == made.end()) {
      const std::string unique = cat(mesh, "/", name, "/", ranks.front());
      known = made.emplace(ranks, world.make_group(unique, ranks)).first;
    }
    groups_.emplace(std::string(name), known->second.renamed(std::string(name)));
  }
}

const Group& DeviceMesh::group(std::string_view name) const {
  const auto found = groups_.find(name);
  AM_ASSERT(found != groups_.end(), cat("no group named ", name));
  return found->second;
}

}  // namespace am::runtime
