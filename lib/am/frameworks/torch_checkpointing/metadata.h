// Parses metadata.pkl of torch_checkpointing 0.1. The file lists the torch.save file of each item
// (model, optimizer, ...) and rank, and the position of the rank's values in the global tensors.
// The pickle is parsed as data: functions that it names are never imported or called.
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

// Returns the default name of the file of an item and rank, for example "model_3.pt".
std::filesystem::path usual_file(const std::string& item, int64_t rank);

class TorchCheckpointingMetadata {
 public:
  // A torch.save file. `path` is relative to the checkpoint's folder and does not lead out of it.
  struct ItemFile {
    std::string item;
    int64_t rank = 0;
    std::string path;
  };

  // Parses `bytes`, a metadata.pkl of version 1.0 or 2.0. Messages of errors begin with `where`.
  // Throws Error(kFormat) if the pickle is not valid metadata, names functions that execute
  // commands, contains paths out of the folder, or describes tensors in formats other than
  // torch.save. Also throws for invalid sharding, and for sharding that is described neither as a
  // DTensor nor as default_tensor_v1.
  static TorchCheckpointingMetadata read(std::span<const std::byte> bytes,
                                         const std::string& where);

  int64_t ranks() const { return ranks_; }
  const std::vector<ItemFile>& files() const { return files_; }
  // Returns whether the metadata describes the item. Files of other items have default names, which
  // usual_file() returns.
  bool has(const std::string& item) const { return items_.contains(item); }
  // Returns the key paths of the tensors that the metadata describes, for example {"model",
  // "lm_head.weight"}.
  std::vector<stored::KeyPath> paths() const;
  // Returns the position of a rank's values in the global tensor `path`; nullopt if the metadata
  // does not describe the tensor for this rank.
  std::optional<stored::PartPlace> place(const stored::KeyPath& path, int64_t rank) const;

 private:
  friend class MetadataReader;
  struct Group;  // ranks whose part of a tensor has the same description

  int64_t ranks_ = 0;
  std::vector<ItemFile> files_;
  std::set<std::string, std::less<>> items_;
  // The groups of each tensor. If the pickle has one list of groups for several tensors, these
  // tensors share one vector.
  std::map<stored::KeyPath, std::shared_ptr<const std::vector<std::shared_ptr<const Group>>>>
      groups_;
};

}  // namespace am::frameworks
