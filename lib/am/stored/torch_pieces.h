// Parts of tensors in one rank's torch.save file: from DTensors, and from metadata files for other
// tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/base/shape.h"
#include "am/formats/torch_archive.h"
#include "am/mesh/shard.h"

namespace am::stored {

// The place of a rank's values in the global tensor, as given by metadata files.
struct PartPlace {
  struct Box {
    mesh::Box box;  // in the global tensor
    Shape local;    // index of the box's first element in the rank's values
  };
  Shape shape;             // of the global tensor
  std::string dtype = {};  // torch's name
  bool fills = false;      // there is one box, with all of the rank's values
  std::vector<Box> boxes = {};
};
// A tensor's values in one file, and their place in the global tensor.
struct TorchPiece {
  formats::TorchTensor values;  // of shape box.shape
  Shape shape;                  // of the global tensor
  mesh::Box box;
};
struct TorchPieces {
  std::vector<TorchPiece> pieces;
  int64_t ranks = 1;  // of a DTensor's mesh
};

// Returns the pieces of a rank in `value`, a tensor or DTensor of the archive; without a `place`, a
// tensor is global. Throws Error(kFormat) prefixed with `where`: `place` describes another part, a
// tensor is marked as a part but has no place, or read_dtensor refuses it.
TorchPieces read_pieces(const formats::TorchArchive& archive, const formats::PickleValue& value,
                        const std::optional<PartPlace>& place, const std::string& where);

}  // namespace am::stored
