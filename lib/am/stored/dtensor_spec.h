// Computes which part of a PyTorch DTensor each rank has, from the numbers in pickles and metadata.
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
  // The split factor of a _StridedShard: the number of pieces into which later mesh dims have cut
  // the tensor dim before this mesh dim cuts it. 1 for a Shard.
  int64_t split_factor = 1;
};

struct DTensorSpec {
  Shape shape;                      // shape of the global tensor
  Shape sizes;                      // sizes of the mesh's dims
  std::vector<AxisPlacement> axes;  // the placement along each mesh dim
  std::vector<size_t> order;        // mesh dims that shard the tensor, in the order of their cuts
};

// Checks a spec, and sets `order` if it is empty. The order is that of torch 2.11: mesh dims cut a
// tensor dim in ascending order, except that a mesh dim with split factor f cuts after those later
// mesh dims whose sizes multiply to f. Returns why the spec is invalid; nothing if it is valid.
std::optional<std::string> put_in_order(DTensorSpec& spec);

// Returns the mesh's number of ranks. This function and the next two require specs that
// put_in_order has accepted.
int64_t ranks_of(const DTensorSpec& spec);
// Returns whether `coordinate` lies inside the mesh.
bool is_on_mesh(const DTensorSpec& spec, const Shape& coordinate);
// Returns the part of the rank at `coordinate`, which must be on the mesh. Each mesh dim cuts as
// torch.chunk does.
mesh::Box part_at(const DTensorSpec& spec, const Shape& coordinate);

}  // namespace am::stored
