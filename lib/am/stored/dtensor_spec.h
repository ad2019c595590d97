// Places of the parts of PyTorch's DTensors, computed from the numbers in pickles and metadata.
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
  int64_t dim = 0;  // dim of the tensor, if sharded
  int64_t split_factor =
      1;  // of _StridedShard: number of pieces from cuts of later mesh dims, made before
};

struct DTensorSpec {
  Shape shape;                      // of the global tensor
  Shape sizes;                      // of the mesh's dims
  std::vector<AxisPlacement> axes;  // one per mesh dim
  std::vector<size_t> order;        // mesh dims that shard the tensor, in the order of their cuts
};

// Checks a spec and sets the order of its cuts as torch 2.11 does: a tensor dim is cut by mesh dims
// in ascending order, except that a mesh dim with split factor f cuts after those later mesh dims
// whose sizes multiply to f. Returns why the spec is invalid; nothing if it is valid. A given order
// is only checked.
std::optional<std::string> put_in_order(DTensorSpec& spec);

// Returns the mesh's number of ranks. This function and the next two require specs that
// put_in_order has accepted.
int64_t ranks_of(const DTensorSpec& spec);
// Returns whether `coordinate` lies inside the mesh.
bool is_on_mesh(const DTensorSpec& spec, const Shape& coordinate);
// Returns the part of the rank at `coordinate`, which must be on the mesh; each cut is as by
// torch.chunk.
mesh::Box part_at(const DTensorSpec& spec, const Shape& coordinate);

}  // namespace am::stored
