// Lists the tensors, and the plain values, in the nested dicts, lists and tuples of a file that
// torch.save wrote.
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
  // A tensor (TorchArchive::tensor), a DTensor (dtensor.h), or a plain value (list_values).
  formats::PickleValue value;
};

// Returns the tensors of a file, breadth-first. A dict that contains itself has infinitely many
// keys, so the function throws Error(kFormat) after four million keys. The message begins with
// `where`.
std::vector<TorchEntry> list_tensors(const formats::TorchArchive& archive,
                                     const std::string& where);

// Returns the values in dicts that are no tensors: None, numbers, texts, and tuples and lists that
// hold neither dicts nor tensors. Same order and errors as list_tensors().
std::vector<TorchEntry> list_values(const formats::TorchArchive& archive, const std::string& where);

}  // namespace am::stored
