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
};

bool is_dtensor(const formats::PickleValue& value);

// The part that `value`, a DTensor of torch 2.4 to 2.11, holds. Shards are cut as torch.chunk cuts,
// in the order of the mesh's dims; _StridedShard's behind all others of its dim, the last first.
// Throws Error(kFormat), which `where` begins: partial sums, fields that are not known, a part of
// another shape than mesh and placements give.
DTensorPart read_dtensor(const formats::TorchArchive& archive, const formats::PickleValue& value,
                         const std::string& where);

}  // namespace am::stored
