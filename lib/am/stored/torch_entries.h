// Lists the tensors in the nested dicts, lists and tuples of a file that torch.save wrote.
#pragma once

#include <string>
#include <vector>

#include "am/formats/torch_archive.h"
#include "am/stored/state_keys.h"

namespace am::stored {

struct TorchEntry {
  // The keys of dicts and indices of lists that lead to the tensor. {"tensor"} if the file has a
  // single tensor and no dict.
  KeyPath path;
  formats::PickleValue value;  // a tensor (TorchArchive::tensor) or a DTensor (dtensor.h)
};

// Returns the tensors of a file, breadth-first. A dict that contains itself has infinitely many
// keys, so the function throws Error(kFormat) after four million keys. The message begins with
// `where`.
std::vector<TorchEntry> list_tensors(const formats::TorchArchive& archive,
                                     const std::string& where);

}  // namespace am::stored
