// Weights written by torch.save (.pt, .pth, .bin, .ckpt) as a tensor source: the tensors of dicts
// and lists, including nested ones, with names joined by dots (state_keys.h). Pickled code is never
// executed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/stored/state_keys.h"
#include "am/stored/tensor_source.h"
#include "am/stored/torch_pieces.h"

namespace am::stored {

// Returns whether the path is a file with one of these suffixes whose first bytes are those of a
// torch.save file, of the current or an older format, or a folder with such files:
// pytorch_model.bin, the files of pytorch_model.bin.index.json, accelerate's pytorch_model_fsdp.bin
// (with optimizer.bin beside it), or others with these suffixes.
bool is_torch_source(const std::filesystem::path& path);
// Throws Error(kFormat) for tar files, which PyTorch wrote before 2017, with a remedy, and for a
// folder whose files are several models.
std::unique_ptr<TensorSource> open_torch_source(const std::filesystem::path& path,
                                                OnDamage damage = OnDamage::kRefuse);

// Returns the place of a rank's values; nothing if metadata files do not describe the tensor.
using FindPlace = std::function<std::optional<PartPlace>(const KeyPath& path, int64_t rank)>;

// A file, the key under which its state is inserted into the folder's state ({"optimizer"}), and
// the rank that wrote it.
struct TorchPart {
  std::filesystem::path path;
  KeyPath holder = {};
  int64_t rank = 0;
};

struct TorchFiles {
  std::string format = {};                 // empty: "torch" or "torch-legacy"
  std::filesystem::path path;              // the file, or the parent folder
  std::vector<TorchPart> parts;            // by rank, ascending
  bool by_rank = false;                    // each rank wrote its part of each tensor
  std::filesystem::path config_file = {};  // empty: the one beside `path`
  std::optional<int64_t> step = {};
  FindPlace place = {};  // for tensors of ranks; may be empty
  // Returns the file that a rank of a mesh has written; empty if `parts` or `problems` list all
  // files.
  std::function<std::filesystem::path(int64_t rank)> rank_file = {};
  OnDamage damage = OnDamage::kRefuse;
  std::vector<StoredProblem> problems = {};  // missing files
};
// Opens the files as one source. A tensor is in parts if it is a DTensor (dtensor.h) or if `place`
// describes it. Other tensors are global; one that several ranks have is read from the first of
// them. Throws Error(kFormat) if files disagree with each other or with `place` and, if damage is
// refused, if parts are missing.
std::unique_ptr<TensorSource> open_torch_files(TorchFiles files);

}  // namespace am::stored
