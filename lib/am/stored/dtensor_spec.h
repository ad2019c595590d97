// Computes the box of a PyTorch DTensor that each rank stores, from pickled meshes and placements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::stored {

// Placement of a tensor along one mesh dim: sharded or replicated.
struct AxisPlacement {
  bool shard = false;
  int64_t dim = 0;  // dim of the tensor that is sharded
  // The split factor of a _StridedShard: the number of shards into which later mesh dims have
  // already split the tensor dim when this mesh dim splits it. 1 for a plain Shard.
  int64_t split_factor = 1;
};

struct DTensorSpec {
  Shape shape;                      // shape of the global tensor
  Shape sizes;                      // sizes of the mesh's dims
  std::vector<AxisPlacement> axes;  // the placement along each mesh dim
  std::vector<size_t> order;        // mesh dims that shard the tensor, in the order applied
};

// Checks a spec, and sets `order` to torch 2.11's order if `order` is empty. In torch's order, the
// mesh dims that shard one tensor dim are applied in ascending order, but a mesh dim with split
// factor f is applied after the later mesh dims whose sizes multiply to f. Returns why the spec is
// invalid; nullopt if the spec is valid.
std::optional<std::string> put_in_order(DTensorSpec& spec);

// Returns the mesh's number of ranks. The specs of this and the next two functions must have passed
// put_in_order().
int64_t ranks_of(const DTensorSpec& spec);
// Returns whether `coordinate` lies inside the mesh.
bool is_on_mesh(const DTensorSpec& spec, const Shape& coordinate);
// Returns the box of the rank at `coordinate`, which must be on the mesh. Each mesh dim splits a
// tensor dim as torch.chunk does.
mesh::Box part_at(const DTensorSpec& spec, const Shape& coordinate);

}  // namespace am::stored
