// Reads PyTorch's DTensors in torch.save files. A pickled DTensor contains one rank's shard of a
// tensor, the mesh and the placements. The shard's position in the global tensor is computed from
// the mesh and the placements.
#pragma once

#include <optional>
#include <string>

#include "am/base/shape.h"
#include "am/formats/torch_archive.h"
#include "am/mesh/shard.h"

namespace am::stored {

struct DTensorPart {
  formats::TorchTensor local;  // values of the shard, [box.shape]
  Shape shape;                 // shape of the global tensor
  mesh::Box box;               // the shard's box in the global tensor
  int64_t ranks = 1;           // number of ranks of the mesh or, for a submesh, of its root mesh
};

bool is_dtensor(const formats::PickleValue& value);

// Returns the shard in `value`, a DTensor of torch 2.4 to 2.11. If several mesh dims shard one
// tensor dim, the DTensor's shard_order is their order. If the DTensor has no shard_order, or has a
// _StridedShard, put_in_order() determines the order (dtensor_spec.h). Throws Error(kFormat), whose
// message begins with `where`, for a placement other than Replicate, Shard and _StridedShard, for
// missing fields, and for a shard whose shape does not follow from the mesh and placements.
DTensorPart read_dtensor(const formats::TorchArchive& archive, const formats::PickleValue& value,
                         const std::string& where);

// Returns the integers in `value`: a number, or a tuple, list or torch.Size of numbers. Flattens
// nested lists of up to four levels. Returns nullopt for any other value, for more than 64 numbers,
// and if `value` is null.
std::optional<Shape> integers_of(const formats::PickleValue* value);

}  // namespace am::stored
