// Weights of torch.save (.pt, .pth, .bin, .ckpt) as a tensor source: the tensors of dicts and
// lists, nested ones included, under names joined by dots (state_keys.h). Nothing of it is
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

// A file by that name that begins as one of torch.save does, of today's format or an older one; or
// a folder that has such weights: pytorch_model.bin, the files of pytorch_model.bin.index.json,
// accelerate's pytorch_model_fsdp.bin (with optimizer.bin beside it), or one file of any such name.
bool is_torch_source(const std::filesystem::path& path);
// Throws Error(kFormat) for tar files, which PyTorch wrote before 2017, with the way out, and for a
// folder whose files are several models.
std::unique_ptr<TensorSource> open_torch_source(const std::filesystem::path& path,
                                                Damage damage = Damage::kRefused);

// The place of a rank's values; nothing where files beside do not describe the tensor.
using FindPlace = std::function<std::optional<PartPlace>(const KeyPath& path, int64_t rank)>;

// A file, the dict in which its state lies among those of its folder ({"optimizer"}), and the rank
// that wrote it.
struct TorchPart {
  std::filesystem::path path;
  KeyPath holder = {};
  int64_t rank = 0;
};

struct TorchFiles {
  std::string format = {};                 // "torch" or "torch-legacy" where it is empty
  std::filesystem::path path;              // the file, or the folder of all
  std::vector<TorchPart> parts;            // by rank, the first one's first
  bool by_rank = false;                    // each rank has written its part of each tensor
  std::filesystem::path config_file = {};  // beside `path` where it is empty
  std::optional<int64_t> step = {};
  FindPlace place = {};  // of tensors of ranks; may be empty
  // The file that a rank of a mesh has written; empty where `parts` or `problems` have them all.
  std::function<std::filesystem::path(int64_t rank)> rank_file = {};
  Damage damage = Damage::kRefused;
  std::vector<StoredProblem> problems = {};  // of files that are missing
};
// Parts of tensors are those of DTensors (dtensor.h) and those that `place` knows; other tensors
// are whole, and where ranks have one several times the first one's is read. Throws Error(kFormat)
// where files disagree with each other or with `place` and, where damage is refused, where parts
// are missing.
std::unique_ptr<TensorSource> open_torch_files(TorchFiles files);

}  // namespace am::stored
