// Lists the tensors, and the plain values, in the nested dicts, lists and tuples of a file that
// torch.save wrote.
#pragma once

#include <string>
#include <vector>

#include "am/formats/torch_archive.h"
#include "am/stored/state_keys.h"

namespace am::stored {

struct TorchEntry {
  // The keys of dicts and indices of lists that lead to the value. {"tensor"} if the file has a
  // single tensor and no dict.
  KeyPath path;
  formats::PickleValue value;
};

struct TorchEntries {
  std::vector<TorchEntry> tensors;  // tensors (TorchArchive::tensor) and DTensors (dtensor.h)
  // None, numbers, texts, and those tuples and lists that contain no dict, tensor, tuple or list.
  std::vector<TorchEntry> values;
};

// Returns the entries of a file, breadth-first. Because a dict may contain itself, omits entries
// with more than 16 keys, and throws Error(kFormat) if there are more than four million entries.
// The message begins with `where`.
TorchEntries list_entries(const formats::TorchArchive& archive, const std::string& where);

}  // namespace am::stored
