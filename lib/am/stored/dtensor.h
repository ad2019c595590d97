// Reads PyTorch's DTensors in torch.save files. A DTensor has a rank's part of a tensor, and the
// mesh and the placements that determine where the part lies in the tensor.
#pragma once

#include <optional>
#include <string>

#include "am/base/shape.h"
#include "am/formats/torch_archive.h"
#include "am/mesh/shard.h"

namespace am::stored {

struct DTensorPart {
  formats::TorchTensor local;  // the part's values, [box.shape]
  Shape shape;                 // shape of the global tensor
  mesh::Box box;               // location of the part in the global tensor
  int64_t ranks = 1;           // size of the mesh, or of the root mesh that it was sliced from
};

bool is_dtensor(const formats::PickleValue& value);

// Returns the part in `value`, a DTensor of torch 2.4 to 2.11. Mesh dims cut the tensor in the
// order of dtensor_spec.h, unless the DTensor's shard_order gives another. Throws Error(kFormat),
// whose message begins with `where`, for partial sums, for unknown fields, and for a part whose
// shape differs from the one that mesh and placements give.
DTensorPart read_dtensor(const formats::TorchArchive& archive, const formats::PickleValue& value,
                         const std::string& where);

// Returns the numbers in `value`, which may be a number, a tuple, a list or a torch.Size, also
// nested in each other. Returns nothing for any other value, and for more than 64 numbers.
std::optional<Shape> integers_of(const formats::PickleValue* value);

}  // namespace am::stored
