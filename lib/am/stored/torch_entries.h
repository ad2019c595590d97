// Lists the tensors of a nested state written by torch.save: those in its dicts, lists and tuples.
#pragma once

#include <string>
#include <vector>

#include "am/formats/torch_archive.h"
#include "am/stored/state_keys.h"

namespace am::stored {

struct TorchEntry {
  KeyPath path;                // keys of dicts and indices of lists; {"tensor"} for a single tensor
  formats::PickleValue value;  // readable by TorchArchive::tensor, or a DTensor (dtensor.h)
};

// Returns the tensors, breadth-first. Throws Error(kFormat) prefixed with `where` for a state of
// more than four million keys: dicts may contain themselves.
std::vector<TorchEntry> list_tensors(const formats::TorchArchive& archive,
                                     const std::string& where);

}  // namespace am::stored
