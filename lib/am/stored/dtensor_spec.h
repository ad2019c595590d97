// Places of the parts of PyTorch's DTensors: arithmetic alone, on the numbers that pickles and
// metadata give.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::stored {

// How a tensor lies along one dim of a mesh: cut, or whole on each of its ranks.
struct AxisPlacement {
  bool shard = false;
  int64_t dim = 0;           // of the tensor, where it is cut
  int64_t split_factor = 1;  // of _StridedShard: pieces that cuts of later mesh dims made before
};

struct DTensorSpec {
  Shape shape;                      // of the whole tensor
  Shape sizes;                      // of the mesh's dims
  std::vector<AxisPlacement> axes;  // one a dim of the mesh
  std::vector<size_t> order;        // dims of the mesh that cut, the first one first
};

// Checks a spec and puts its cuts in order, as torch 2.11 does: those of one dim of the tensor from
// the first dim of the mesh on, but one of split factor f behind others whose sizes multiply to f.
// Returns why no tensor lies so, nothing where one can. An order that is given is checked alone.
std::optional<std::string> put_in_order(DTensorSpec& spec);

// Number of ranks on the mesh. This function and the next two take specs that were put in order.
int64_t ranks_of(const DTensorSpec& spec);
// Whether `coordinate` lies inside the mesh.
bool is_on_mesh(const DTensorSpec& spec, const Shape& coordinate);
// The part of the rank at `coordinate`, which is on the mesh; each cut is torch.chunk's.
mesh::Box part_at(const DTensorSpec& spec, const Shape& coordinate);

}  // namespace am::stored
