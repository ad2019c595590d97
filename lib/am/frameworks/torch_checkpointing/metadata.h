// metadata.pkl of torch_checkpointing 0.1. It names the file of each item (model, optimizer, ...)
// and rank, and the place of the rank's values in the global tensors. The pickle is parsed as data:
// Python names in it are never imported or called.
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

// Returns the file of an item and rank if the metadata names no other, for example "model_3.pt".
std::filesystem::path usual_file(const std::string& item, int64_t rank);

class TorchCheckpointingMetadata {
 public:
  // One file of torch.save. `path`: relative to the checkpoint's folder, and inside of it.
  struct ItemFile {
    std::string item;
    int64_t rank = 0;
    std::string path;
  };

  // Parses metadata.pkl of the versions 1.0 and 2.0. Throws Error(kFormat) if `bytes` is not such a
  // pickle, has globals that execute commands, has paths outside of the folder, stores tensors in a
  // format other than torch.save's, or has sharding that is invalid or neither DTensor's nor
  // default_tensor_v1. Messages begin with `where`.
  static TorchCheckpointingMetadata read(std::span<const std::byte> bytes,
                                         const std::string& where);

  int64_t ranks() const { return ranks_; }
  const std::vector<ItemFile>& files() const { return files_; }
  // Returns whether the metadata describes the item. The files of other items have the names that
  // usual_file() returns.
  bool has(const std::string& item) const { return items_.contains(item); }
  // Returns the names of the tensors that the metadata describes, for example
  // {"model", "lm_head.weight"}.
  std::vector<stored::KeyPath> paths() const;
  // Returns the place of a rank's values in the tensor `path`; nullopt if the metadata has none.
  std::optional<stored::PartPlace> place(const stored::KeyPath& path, int64_t rank) const;

 private:
  friend class MetadataReader;
  struct Group;  // a group of ranks for which the pickle has one description of a tensor

  int64_t ranks_ = 0;
  std::vector<ItemFile> files_;
  std::set<std::string, std::less<>> items_;
  // The groups of each tensor. Tensors that refer to one list of groups in the pickle share it.
  std::map<stored::KeyPath, std::shared_ptr<const std::vector<std::shared_ptr<const Group>>>>
      groups_;
};

}  // namespace am::frameworks
