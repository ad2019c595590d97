// Parts of tensors in one rank's file of torch.save: what DTensors hold, and what files beside say
// of other tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/base/shape.h"
#include "am/formats/torch_archive.h"
#include "am/mesh/shard.h"

namespace am::stored {

// The place of a rank's values in the whole tensor, as files beside them give it.
struct PartPlace {
  struct Box {
    mesh::Box box;  // in the whole tensor
    Shape local;    // its first element in the rank's values
  };
  Shape shape;             // of the whole
  std::string dtype = {};  // by torch's name
  bool fills = false;      // the one box has all of the rank's values
  std::vector<Box> boxes = {};
};
// A tensor's values in one file, and their place in the whole.
struct TorchPiece {
  formats::TorchTensor values;  // of box.shape
  Shape shape;                  // of the whole tensor
  mesh::Box box;
};
struct TorchPieces {
  std::vector<TorchPiece> pieces;
  int64_t ranks = 1;  // of a DTensor's mesh
};

// The pieces that `value`, a tensor or DTensor of the archive, holds of a rank; without a `place` a
// tensor is whole. Throws Error(kFormat), which `where` begins: `place` describes another part, a
// tensor that says it is a part and has no place, what read_dtensor refuses.
TorchPieces read_pieces(const formats::TorchArchive& archive, const formats::PickleValue& value,
                        const std::optional<PartPlace>& place, const std::string& where);

}  // namespace am::stored
