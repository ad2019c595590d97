#include "am/runtime/device_mesh.h"

#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::runtime {

DeviceMesh::DeviceMesh(const World& world, const mesh::MeshLayout& layout,
                       std::optional<c10::Device> device)
    : world_(world),
      rank_(world.rank()),
      device_(device.value_or(world.device())),
      layout_(layout) {
  if (world.size() != layout.world_size()) {
    throw Error(ErrorKind::kPlan, cat("the plan's mesh has ", layout.world_size(),
                                      " ranks, but the world has ", world.size()));
  }
  // Prefix of the names of all groups of this mesh. Each mesh has a different prefix, because a
  // world may have several meshes.
  const std::string mesh = world.unique_name("mesh");
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

Group DeviceMesh::split(std::string_view name, int64_t size) const {
  const Group& whole = group(name);
  if (size < 1 || whole.size() % size != 0) {
    throw Error(ErrorKind::kPlan, cat("the ", whole.size(), " ranks of ", name,
                                      " cannot be divided into blocks of ", size));
  }
  const auto first = whole.ranks().begin() + whole.index() / size * size;
  std::vector<int64_t> ranks(first, first + size);
  const std::string unique = world_.unique_name(cat("mesh/", name, "/", size));
  return world_.make_group(cat(unique, "/", ranks.front()), ranks).renamed(cat(name, "/", size));
}

// Connecting a hop blocks until the hop's other end connects too. All ranks connect their hops in
// one global order, so both ends of the first unconnected hop are always ready, and no ranks
// deadlock.
Channels DeviceMesh::channels(std::string_view name, const std::set<Hop>& hops) const {
  const Group& whole = group(name);
  Channels made;
  for (const Hop& hop : hops) {
    const auto known = [&](int64_t index) { return index >= 0 && index < whole.size(); };
    AM_ASSERT(known(hop.from) && known(hop.to) && hop.from != hop.to, "a hop between two ranks");
    if (hop.from != whole.index() && hop.to != whole.index()) continue;
    const std::vector<int64_t> ends = {whole.ranks()[static_cast<size_t>(hop.from)],
                                       whole.ranks()[static_cast<size_t>(hop.to)]};
    GroupOptions options;
    options.timeout = world_.timeout();
    options.messages_only = true;
    const std::string unique = world_.unique_name(cat("channel/", ends[0], "-", ends[1]));
    made.emplace(hop, Channel(world_.new_group(unique, ends, options).renamed(std::string(name))));
  }
  return made;
}

}  // namespace am::runtime
