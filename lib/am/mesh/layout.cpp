#include "am/mesh/layout.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::mesh {
namespace {

// Name of a process group, and the axes along which its ranks differ. The expert groups etp, ep and
// ep_shard have no NamedAxes, because they are not combinations of mesh axes.
struct NamedAxes {
  std::string_view name;
  std::array<bool, 5> varies;  // a flag for each of kAxes: whether the axis is in the group
};

constexpr std::array<NamedAxes, 9> kNamedAxes = {{
    {"pp", {true, false, false, false, false}},
    {"dp_replicate", {false, true, false, false, false}},
    {"dp_shard", {false, false, true, false, false}},
    {"cp", {false, false, false, true, false}},
    {"tp", {false, false, false, false, true}},
    {"dp", {false, true, true, false, false}},
    {"dp_shard_cp", {false, false, true, true, false}},
    {"dp_cp", {false, true, true, true, false}},
    {"world", {true, true, true, true, true}},
}};

// Returns the axes of the process group with this name, or null for an expert group or an unknown
// name.
//
// All process groups are computed from the coordinates of ranks: the coordinates of two ranks of a
// group differ only along the axes of the group. For expert groups, the coordinates are the three
// indices (ep_shard, ep, etp) of a rank in its pipeline stage, and each group has one of these
// axes.
const NamedAxes* find_axes(std::string_view name) {
  const auto found = std::find_if(kNamedAxes.begin(), kNamedAxes.end(),
                                  [&](const NamedAxes& axes) { return axes.name == name; });
  return found == kNamedAxes.end() ? nullptr : &*found;
}

// Size of an expert group, and the difference between the numbers of neighbouring ranks in it.
struct ExpertGroup {
  int64_t size = 1, stride = 1;
};
std::optional<ExpertGroup> expert_group(const MeshSizes& sizes, std::string_view name) {
  if (name == "etp") return ExpertGroup{sizes.etp, 1};
  if (name == "ep") return ExpertGroup{sizes.ep, sizes.etp};
  const int64_t one_copy = sizes.ep * sizes.etp;
  if (name == "ep_shard") return ExpertGroup{sizes.world_size() / sizes.pp / one_copy, one_copy};
  return std::nullopt;
}

[[noreturn]] void unknown_group(std::string_view name) {
  throw Error(ErrorKind::kInternal, cat("no group is named \"", name, "\""));
}

void check_sizes(const MeshSizes& sizes) {
  for (const Axis axis : kAxes) {
    if (sizes.size(axis) < 1) {
      throw Error(ErrorKind::kPlan, cat("the mesh needs at least one rank along ", to_string(axis),
                                        ", not ", sizes.size(axis)));
    }
  }
  const int64_t stage = sizes.world_size() / sizes.pp;
  if (sizes.ep < 1 || stage % sizes.ep != 0) {
    throw Error(ErrorKind::kPlan, cat("ep = ", sizes.ep, " does not divide the ", stage,
                                      " ranks of a pipeline stage"));
  }
  if (sizes.etp < 1 || stage % (sizes.ep * sizes.etp) != 0) {
    throw Error(ErrorKind::kPlan,
                cat("ep * etp = ", sizes.ep, " * ", sizes.etp, " does not divide the ", stage,
                    " ranks of a pipeline stage"));
  }
}

}  // namespace

const char* to_string(Axis axis) {
  switch (axis) {
    case Axis::kPp:
      return "pp";
    case Axis::kDpReplicate:
      return "dp_replicate";
    case Axis::kDpShard:
      return "dp_shard";
    case Axis::kCp:
      return "cp";
    case Axis::kTp:
      return "tp";
  }
  return "";
}

int64_t MeshSizes::size(Axis axis) const {
  switch (axis) {
    case Axis::kPp:
      return pp;
    case Axis::kDpReplicate:
      return dp_replicate;
    case Axis::kDpShard:
      return dp_shard;
    case Axis::kCp:
      return cp;
    case Axis::kTp:
      return tp;
  }
  return 1;
}

MeshLayout::MeshLayout(const MeshSizes& sizes) : sizes_(sizes) { check_sizes(sizes_); }

std::array<int64_t, 5> MeshLayout::coordinate(int64_t rank) const {
  AM_ASSERT(rank >= 0 && rank < world_size(), cat("rank ", rank, " is not in the mesh"));
  std::array<int64_t, 5> coordinate{};
  for (size_t i = kAxes.size(); i-- > 0;) {
    const int64_t size = sizes_.size(kAxes[i]);
    coordinate[i] = rank % size;
    rank /= size;
  }
  return coordinate;
}

int64_t MeshLayout::rank(const std::array<int64_t, 5>& coordinate) const {
  int64_t rank = 0;
  for (size_t i = 0; i < kAxes.size(); ++i) {
    const int64_t size = sizes_.size(kAxes[i]);
    AM_ASSERT(coordinate[i] >= 0 && coordinate[i] < size,
              cat("coordinate ", coordinate[i], " is not on axis ", to_string(kAxes[i])));
    rank = rank * size + coordinate[i];
  }
  return rank;
}

int64_t MeshLayout::group_size(std::string_view name) const {
  if (const auto expert = expert_group(sizes_, name)) return expert->size;
  const NamedAxes* axes = find_axes(name);
  if (axes == nullptr) unknown_group(name);
  int64_t size = 1;
  for (size_t i = 0; i < kAxes.size(); ++i) {
    if (axes->varies[i]) size *= sizes_.size(kAxes[i]);
  }
  return size;
}

int64_t MeshLayout::index(int64_t rank, std::string_view name) const {
  const auto position = coordinate(rank);
  const int64_t in_stage = rank % (world_size() / sizes_.pp);
  if (const auto expert = expert_group(sizes_, name)) {
    return in_stage / expert->stride % expert->size;
  }
  const NamedAxes* axes = find_axes(name);
  if (axes == nullptr) unknown_group(name);
  int64_t index = 0;
  for (size_t i = 0; i < kAxes.size(); ++i) {
    if (axes->varies[i]) index = index * sizes_.size(kAxes[i]) + position[i];
  }
  return index;
}

std::vector<int64_t> MeshLayout::group(int64_t rank, std::string_view name) const {
  const int64_t size = group_size(name);
  std::vector<int64_t> ranks(static_cast<size_t>(size));
  if (const auto expert = expert_group(sizes_, name)) {
    const int64_t first = rank - index(rank, name) * expert->stride;
    for (int64_t i = 0; i < size; ++i) ranks[static_cast<size_t>(i)] = first + i * expert->stride;
    return ranks;
  }
  const NamedAxes* axes = find_axes(name);
  if (axes == nullptr) unknown_group(name);
  auto position = coordinate(rank);
  for (int64_t i = 0; i < size; ++i) {
    int64_t rest = i;
    for (size_t axis = kAxes.size(); axis-- > 0;) {
      if (!axes->varies[axis]) continue;
      position[axis] = rest % sizes_.size(kAxes[axis]);
      rest /= sizes_.size(kAxes[axis]);
    }
    ranks[static_cast<size_t>(i)] = this->rank(position);
  }
  return ranks;
}

std::vector<std::vector<int64_t>> MeshLayout::groups(std::string_view name) const {
  std::vector<std::vector<int64_t>> groups;
  groups.reserve(static_cast<size_t>(world_size() / group_size(name)));
  for (int64_t rank = 0; rank < world_size(); ++rank) {
    if (index(rank, name) == 0) groups.push_back(group(rank, name));
  }
  return groups;
}

}  // namespace am::mesh
