// Reads the shards of tensors in one rank's torch.save file. A DTensor contains its position in the
// global tensor; a metadata file contains the positions of shards that are plain tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/base/shape.h"
#include "am/formats/torch_archive.h"
#include "am/mesh/shard.h"

namespace am::stored {

// The location of a rank's values in the global tensor, as a metadata file describes it.
struct PartPlace {
  struct Box {
    mesh::Box box;  // location in the global tensor
    Shape local;    // index of the box's first element in the rank's values
  };
  Shape shape;             // shape of the global tensor
  std::string dtype = {};  // torch's name of the dtype
  bool fills = false;      // true: there is one box, which covers all of the rank's values
  std::vector<Box> boxes = {};
};
// Values in one file, and the box of the global tensor that they fill.
struct TorchPiece {
  formats::TorchTensor values;  // [box.shape]
  Shape shape;                  // shape of the global tensor
  mesh::Box box;
};
struct TorchPieces {
  std::vector<TorchPiece> pieces;
  int64_t ranks = 1;  // number of ranks of a DTensor's mesh; 1 for other tensors
};

// Returns the boxes of a global tensor that `value`, a tensor or DTensor of the archive, contains.
// `place` describes the value as a metadata file does. Without `place`, a DTensor is located by its
// own fields, and any other tensor is the full tensor. Throws Error(kFormat) if `value` disagrees
// with `place`, if a tensor is marked as a shard but has no `place`, or if read_dtensor() rejects a
// DTensor. The message begins with `where`.
TorchPieces read_pieces(const formats::TorchArchive& archive, const formats::PickleValue& value,
                        const std::optional<PartPlace>& place, const std::string& where);

}  // namespace am::stored
