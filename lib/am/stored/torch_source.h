// Opens weights that torch.save wrote (.pt, .pth, .bin, .ckpt). Lists the tensors in nested dicts
// and lists. A tensor's name is derived from the keys that lead to the tensor (state_keys.h).
// Pickled code is never executed.
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

// Returns whether the path is a torch.save file, of the current or an older format, or a folder
// with torch.save files. A file is recognised by its suffix (.pt, .pth, .bin, .ckpt) and its first
// bytes. A folder must contain pytorch_model.bin, pytorch_model.bin.index.json, or a torch.save
// file with another name that may hold a model, for example accelerate's pytorch_model_fsdp.bin.
bool is_torch_source(const std::filesystem::path& path);
// Opens a path for which is_torch_source() is true. Throws Error(kFormat) for a tar file, the
// format of PyTorch before 2017. Also throws Error(kFormat) for a folder in which several files may
// hold the model, unless the folder has pytorch_model.bin, its index or pytorch_model_fsdp.bin.
std::unique_ptr<TensorSource> open_torch_source(const std::filesystem::path& path,
                                                OnDamage damage = OnDamage::kRefuse);

// Function that finds the position of saved values in their global tensor. `rank` saved the values
// under the keys `path`. Returns nullopt if no metadata file describes the tensor.
using FindPlace = std::function<std::optional<PartPlace>(const KeyPath& path, int64_t rank)>;

// One of the files of a checkpoint.
struct TorchPart {
  std::filesystem::path path;
  KeyPath holder = {};  // keys to add in front of the file's own keys, for example {"optimizer"}
  int64_t rank = 0;     // the rank that wrote the file
};

struct TorchFiles {
  std::string format = {};                 // name of the format; empty: "torch" or "torch-legacy"
  std::filesystem::path path;              // path of the only file, or of the folder with all files
  std::vector<TorchPart> parts;            // the files, in ascending order of ranks
  bool by_rank = false;                    // true: files of several ranks may hold one tensor
  std::filesystem::path config_file = {};  // config.json; empty: the one beside `path`, if any
  std::optional<int64_t> step = {};        // number of the training step, if known
  FindPlace place = {};  // finds the position of a rank's shard; empty without metadata files
  // Returns the path of a rank's file. open_torch_files() detects missing files with this function.
  // May be empty if `parts` and `problems` together list all files.
  std::function<std::filesystem::path(int64_t rank)> rank_file = {};
  OnDamage damage = OnDamage::kRefuse;
  std::vector<StoredProblem> problems = {};  // files that the caller found missing
};
// Opens the files as one source. A stored tensor is a shard if it is a DTensor (dtensor.h) or if
// `place` describes it. Any other tensor is a full tensor. If several ranks saved a full tensor,
// the file of the first rank is read. Throws Error(kFormat) if the files contain no tensors, or
// disagree with each other or with `place`. With OnDamage::kRefuse, also throws Error(kFormat) if
// shards are missing, and Error(kIo) if a rank's file is missing.
std::unique_ptr<TensorSource> open_torch_files(TorchFiles files);

}  // namespace am::stored
