// Computes the coordinates of ranks in the device mesh, and the ranks of each process group.
//
// The axes, from outermost to innermost, are those of PyTorch's and NeMo AutoModel's five-axis
// mesh: pp, dp_replicate, dp_shard, cp, tp. Ranks are row-major in this order, so tp varies
// fastest.
//
//   MeshLayout mesh({.dp_shard = 2, .tp = 2});
//   mesh.groups("tp");            // {{0, 1}, {2, 3}}
//   mesh.index(3, "dp_shard");    // 1
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::mesh {

enum class Axis { kPp, kDpReplicate, kDpShard, kCp, kTp };

inline constexpr std::array<Axis, 5> kAxes = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard,
                                              Axis::kCp, Axis::kTp};

const char* to_string(Axis axis);

// Number of ranks along each axis, at least 1. `ep` and `etp` are not axes, because expert
// parallelism divides the ranks of a pipeline stage in its own way. ep * etp must divide
// dp_replicate * dp_shard * cp * tp.
struct MeshSizes {
  int64_t pp = 1;
  int64_t dp_replicate = 1;
  int64_t dp_shard = 1;
  int64_t cp = 1;
  int64_t tp = 1;
  int64_t ep = 1;
  int64_t etp = 1;  // tensor-parallel ranks of each expert, in the grid of the expert groups

  int64_t size(Axis axis) const;
  int64_t world_size() const { return pp * dp_replicate * dp_shard * cp * tp; }
  int64_t dp() const { return dp_replicate * dp_shard; }
  bool operator==(const MeshSizes&) const = default;
};

// Names of process groups: the five axes, three combinations of axes (named as in AutoModel), the
// two expert groups, and "world".
//   dp = (dp_replicate, dp_shard)          ranks that read different samples
//   dp_shard_cp = (dp_shard, cp)           ranks over which FSDP shards a parameter
//   dp_cp = (dp_replicate, dp_shard, cp)   ranks over which gradients of unsharded parameters are
//                                          summed
//   ep, ep_shard                           axes of a grid (ep_shard, ep, etp) that contains all
//                                          ranks of a pipeline stage
// MeshLayout also accepts "etp", the innermost axis of this grid. Jobs create no groups along etp.
inline constexpr std::array<std::string_view, 11> kGroupNames = {
    "pp",          "dp_replicate", "dp_shard", "cp",       "tp",   "dp",
    "dp_shard_cp", "dp_cp",        "ep",       "ep_shard", "world"};

class MeshLayout {
 public:
  // Throws Error(kPlan) if a size is below 1 or ep * etp does not divide the ranks of a stage.
  explicit MeshLayout(const MeshSizes& sizes);

  const MeshSizes& sizes() const { return sizes_; }
  int64_t world_size() const { return sizes_.world_size(); }

  // Returns the rank's index along each of kAxes, outermost first.
  std::array<int64_t, 5> coordinate(int64_t rank) const;
  int64_t rank(const std::array<int64_t, 5>& coordinate) const;

  // Returns the number of ranks in each group with this name. Throws Error(kInternal) for an
  // unknown name.
  int64_t group_size(std::string_view name) const;
  // Returns the index of `rank` in its group with this name. Ranks of a group are numbered
  // row-major over the group's axes.
  int64_t index(int64_t rank, std::string_view name) const;
  // Returns all ranks of the group with this name to which `rank` belongs, in the order of their
  // indices in the group.
  std::vector<int64_t> group(int64_t rank, std::string_view name) const;
  // Returns all groups with this name, ordered by their first rank. Each rank is in exactly one
  // group.
  std::vector<std::vector<int64_t>> groups(std::string_view name) const;

 private:
  MeshSizes sizes_;
};

}  // namespace am::mesh
