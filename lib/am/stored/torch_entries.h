// Lists the tensors in the nested dicts, lists and tuples of a file that torch.save wrote.
#pragma once

#include <string>
#include <vector>

#include "am/formats/torch_archive.h"
#include "am/stored/state_keys.h"

namespace am::stored {

struct TorchEntry {
  // Keys of dicts and indices of lists that lead to the tensor; {"tensor"} if the file has only one
  // tensor outside of a dict.
  KeyPath path;
  formats::PickleValue value;  // a tensor for TorchArchive::tensor, or a DTensor (dtensor.h)
};

// Returns the tensors of a file, breadth-first. Throws Error(kFormat), whose message begins with
// `where`, after four million keys, since a dict may contain itself.
std::vector<TorchEntry> list_tensors(const formats::TorchArchive& archive,
                                     const std::string& where);

}  // namespace am::stored
