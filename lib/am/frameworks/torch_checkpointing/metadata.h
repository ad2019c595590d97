// metadata.pkl of torch_checkpointing 0.1: the file of each item and rank, and the place of the
// rank's values in the global tensors. Parsed as data; names in it are never imported or called.
//
//   const auto metadata = TorchCheckpointingMetadata::read(bytes, "step-2/metadata.pkl");
//   metadata.files().front();                                   // {"model", 3, "model_3.pt"}
//   const auto part = metadata.place({"model", "lm_head.weight"}, 3);
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "am/stored/state_keys.h"
#include "am/stored/torch_source.h"

namespace am::frameworks {

// Returns "model_3.pt": the file of a rank's item if the metadata names no other.
std::filesystem::path usual_file(const std::string& item, int64_t rank);

class TorchCheckpointingMetadata {
 public:
  // One file of torch.save; `path` is inside the checkpoint's folder and relative to it.
  struct ItemFile {
    std::string item;
    int64_t rank = 0;
    std::string path;
  };

  // Supports versions 1.0 and 2.0. Throws Error(kFormat) prefixed with `where`: not such a pickle,
  // globals that execute commands, paths outside of the folder, items with tensors in formats other
  // than torch.save's, sharding other than DTensor's and default_tensor_v1, or invalid sharding.
  static TorchCheckpointingMetadata read(std::span<const std::byte> bytes,
                                         const std::string& where);

  int64_t ranks() const { return ranks_; }
  const std::vector<ItemFile>& files() const { return files_; }
  // Returns whether the metadata describes the item; other items have files with the usual names.
  bool has(const std::string& item) const { return items_.contains(item); }
  // Names of the described tensors, such as {"model", "lm_head.weight"}.
  std::vector<stored::KeyPath> paths() const;
  // Returns the place of a rank's values in the tensor; nothing if the metadata does not describe
  // it.
  std::optional<stored::PartPlace> place(const stored::KeyPath& path, int64_t rank) const;

 private:
  friend class MetadataReader;
  struct Group;  // ranks with the same description of a tensor

  int64_t ranks_ = 0;
  std::vector<ItemFile> files_;
  std::set<std::string, std::less<>> items_;
  // Tensors that refer to the same groups in the pickle share them.
  std::map<stored::KeyPath, std::shared_ptr<const std::vector<std::shared_ptr<const Group>>>>
      groups_;
};

}  // namespace am::frameworks
