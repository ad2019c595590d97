// PyTorch's DTensors in files of torch.save: a rank's part of a tensor, with the mesh and the
// placements that say where it lies.
#pragma once

#include <optional>
#include <string>

#include "am/base/shape.h"
#include "am/formats/torch_archive.h"
#include "am/mesh/shard.h"

namespace am::stored {

struct DTensorPart {
  formats::TorchTensor local;  // of box.shape
  Shape shape;                 // of the whole tensor
  mesh::Box box;               // the part's place in it
  int64_t ranks = 1;           // of the mesh, or of the larger one it was sliced from
};

bool is_dtensor(const formats::PickleValue& value);

// The part that `value`, a DTensor of torch 2.4 to 2.11, holds; its cuts are in the order of
// dtensor_spec.h, or of shard_order where it says another. Throws Error(kFormat), which `where`
// begins: partial sums, fields that are not known, a part of another shape than mesh and placements
// give.
DTensorPart read_dtensor(const formats::TorchArchive& archive, const formats::PickleValue& value,
                         const std::string& where);

// Numbers of a tuple, a list or torch.Size, those of nested ones in their order, or a lone number;
// nothing for anything else, and for more than 64.
std::optional<Shape> integers_of(const formats::PickleValue* value);

}  // namespace am::stored
