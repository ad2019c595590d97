// Reads the parts of tensors in one rank's torch.save file. A DTensor says which part of a tensor
// it is; for other tensors, metadata files say it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/base/shape.h"
#include "am/formats/torch_archive.h"
#include "am/mesh/shard.h"

namespace am::stored {

// The location of a rank's values in the global tensor, as metadata files give it.
struct PartPlace {
  struct Box {
    mesh::Box box;  // location in the global tensor
    Shape local;    // index of the box's first element in the rank's values
  };
  Shape shape;             // shape of the global tensor
  std::string dtype = {};  // torch's name of the dtype
  bool fills = false;      // whether the only box has all of the rank's values
  std::vector<Box> boxes = {};
};
// Values of a tensor in one file, and their location in the global tensor.
struct TorchPiece {
  formats::TorchTensor values;  // [box.shape]
  Shape shape;                  // shape of the global tensor
  mesh::Box box;
};
struct TorchPieces {
  std::vector<TorchPiece> pieces;
  int64_t ranks = 1;  // number of ranks of the DTensor's mesh; 1 for other tensors
};

// Returns the pieces of a tensor that `value`, a tensor or DTensor of the archive, contains. A
// tensor without a `place` is the full tensor. Throws Error(kFormat), whose message begins with
// `where`, if `place` describes another part, if a tensor is marked as a part but has no `place`,
// or if read_dtensor refuses it.
TorchPieces read_pieces(const formats::TorchArchive& archive, const formats::PickleValue& value,
                        const std::optional<PartPlace>& place, const std::string& where);

}  // namespace am::stored
