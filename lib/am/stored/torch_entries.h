// Tensors of a nested state that torch.save has written: those of its dicts, lists and tuples.
#pragma once

#include <string>
#include <vector>

#include "am/formats/torch_archive.h"
#include "am/stored/state_keys.h"

namespace am::stored {

struct TorchEntry {
  KeyPath path;                // keys of dicts and places in lists; {"tensor"} of a lone tensor
  formats::PickleValue value;  // that TorchArchive::tensor reads, or a DTensor (dtensor.h)
};

// Level by level. Throws Error(kFormat), which `where` begins, for a state of four million keys:
// dicts may contain themselves.
std::vector<TorchEntry> list_tensors(const formats::TorchArchive& archive,
                                     const std::string& where);

}  // namespace am::stored
