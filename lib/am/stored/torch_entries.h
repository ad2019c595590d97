// Lists the tensors and the plain values (numbers, texts, ...) in a file that torch.save wrote.
// Searches nested dicts, lists and tuples.
#pragma once

#include <string>
#include <vector>

#include "am/formats/torch_archive.h"
#include "am/stored/state_keys.h"

namespace am::stored {

struct TorchEntry {
  // The keys of dicts and indices of lists that lead to the value, outermost first. {"tensor"} if
  // the file's root object is a tensor.
  KeyPath path;
  formats::PickleValue value;
};

struct TorchEntries {
  std::vector<TorchEntry> tensors;  // tensors (TorchArchive::tensor) and DTensors (dtensor.h)
  // Plain values: None, Booleans, numbers, texts, and those tuples and lists that contain no dict,
  // tensor, tuple or list.
  std::vector<TorchEntry> values;
};

// Returns the entries of a file, breadth-first. Because a dict may contain itself, omits entries
// whose paths have more than 16 keys, and throws Error(kFormat) if the dicts and lists have more
// than four million keys. The message begins with `where`.
TorchEntries list_entries(const formats::TorchArchive& archive, const std::string& where);

}  // namespace am::stored
