// Opens weights that torch.save wrote (.pt, .pth, .bin, .ckpt). Lists the tensors of dicts and
// lists, also nested ones, and joins their keys by dots to names (state_keys.h). Pickled code is
// never executed.
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

// Returns whether the path is a file with one of these suffixes that begins as torch.save files of
// the current or an older format begin, or a folder with such files: pytorch_model.bin, the files
// of pytorch_model.bin.index.json, accelerate's pytorch_model_fsdp.bin (with optimizer.bin beside
// it), or other files with these suffixes.
bool is_torch_source(const std::filesystem::path& path);
// Throws Error(kFormat) for tar files, which PyTorch wrote before 2017, and for a folder with the
// files of several models.
std::unique_ptr<TensorSource> open_torch_source(const std::filesystem::path& path,
                                                OnDamage damage = OnDamage::kRefuse);

// Returns where the values that `rank` saved under the keys `path` lie in the global tensor;
// nothing if metadata files do not describe the tensor.
using FindPlace = std::function<std::optional<PartPlace>(const KeyPath& path, int64_t rank)>;

// One of the files of a checkpoint.
struct TorchPart {
  std::filesystem::path path;
  KeyPath holder = {};  // keys to put before those of the file, for example {"optimizer"}
  int64_t rank = 0;     // the rank that wrote the file
};

struct TorchFiles {
  std::string format = {};                 // name of the format; empty: "torch" or "torch-legacy"
  std::filesystem::path path;              // path of the only file, or of the folder with all files
  std::vector<TorchPart> parts;            // the files, in ascending order of ranks
  bool by_rank = false;                    // whether each rank wrote its part of each tensor
  std::filesystem::path config_file = {};  // config.json; empty: the one beside `path`, if any
  std::optional<int64_t> step = {};        // number of the training step, if known
  FindPlace place = {};  // finds which part of a tensor a rank wrote; empty without metadata files
  // Returns the path of the file that a rank has written, to find missing files. Empty if `parts`
  // and `problems` list all files.
  std::function<std::filesystem::path(int64_t rank)> rank_file = {};
  OnDamage damage = OnDamage::kRefuse;
  std::vector<StoredProblem> problems = {};  // files that the caller found to be missing
};
// Opens the files as one source. A tensor in a file is a part of a global tensor if it is a DTensor
// (dtensor.h) or if `place` describes it. Any other tensor is the full tensor, and if several ranks
// have it, it is read from the first rank's file. Throws Error(kFormat) if files disagree with each
// other or with `place`, and with OnDamage::kRefuse if parts are missing.
std::unique_ptr<TensorSource> open_torch_files(TorchFiles files);

}  // namespace am::stored
