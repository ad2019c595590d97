// PyTorch's DTensors in torch.save files: a rank's part of a tensor, with the mesh and the
// placements that give its place.
#pragma once

#include <optional>
#include <string>

#include "am/base/shape.h"
#include "am/formats/torch_archive.h"
#include "am/mesh/shard.h"

namespace am::stored {

struct DTensorPart {
  formats::TorchTensor local;  // of shape box.shape
  Shape shape;                 // of the global tensor
  mesh::Box box;               // place of the part in the global tensor
  int64_t ranks = 1;           // of the mesh, or of the root mesh it was sliced from
};

bool is_dtensor(const formats::PickleValue& value);

// Returns the part in `value`, a DTensor of torch 2.4 to 2.11. Cuts are in the order of
// dtensor_spec.h, or of shard_order if it differs. Throws Error(kFormat) prefixed with `where`:
// partial sums, unknown fields, or a part whose shape differs from the one that mesh and placements
// give.
DTensorPart read_dtensor(const formats::TorchArchive& archive, const formats::PickleValue& value,
                         const std::string& where);

// Returns the numbers of a tuple, a list or torch.Size (nested ones flattened), or of a single
// number; nothing for anything else, and for more than 64 numbers.
std::optional<Shape> integers_of(const formats::PickleValue* value);

}  // namespace am::stored
