// metadata.pkl of torch_checkpointing 0.1: which file has which item of a rank, and where the
// rank's values lie in the whole tensors. Read as data; nothing that it names is looked up or
// called.
//
//   const auto metadata = TorchCheckpointingMetadata::read(bytes, "step-2/metadata.pkl");
//   for (const auto& file : metadata.files()) ..                // "model", 3, "model_3.pt"
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

namespace am::stored {

// "model_3.pt": the file of a rank's item where no layout names another.
std::filesystem::path usual_file(const std::string& item, int64_t rank);

class TorchCheckpointingMetadata {
 public:
  // One file of torch.save; `path` is inside the checkpoint's folder and relative to it.
  struct ItemFile {
    std::string item;
    int64_t rank = 0;
    std::string path;
  };

  // Versions 1.0 and 2.0. Throws Error(kFormat), which `where` begins: no such pickle, one that
  // names what runs commands, paths outside of the folder, items in other formats than torch.save's
  // that hold tensors, sharding of another kind than DTensor's and default_tensor_v1, or such as no
  // tensor can have.
  static TorchCheckpointingMetadata read(std::span<const std::byte> bytes,
                                         const std::string& where);

  int64_t ranks() const { return ranks_; }
  const std::vector<ItemFile>& files() const { return files_; }
  // Whether it describes the item; others have files by the usual names.
  bool has(const std::string& item) const { return items_.contains(item); }
  // Names of tensors that it describes; {"model", "lm_head.weight"}.
  std::vector<KeyPath> paths() const;
  // The place of a rank's values in the tensor; nothing where the metadata does not describe it.
  std::optional<PartPlace> place(const KeyPath& path, int64_t rank) const;

 private:
  friend class MetadataReader;
  struct Group;  // ranks whose tensor of a name is described alike

  int64_t ranks_ = 0;
  std::vector<ItemFile> files_;
  std::set<std::string, std::less<>> items_;
  // Groups are shared by the tensors that name the same ones in the pickle.
  std::map<KeyPath, std::shared_ptr<const std::vector<std::shared_ptr<const Group>>>> groups_;
};

}  // namespace am::stored
