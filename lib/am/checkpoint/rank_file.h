// Writes one rank's data file of a checkpoint. The file contains a label and then torch.save
// archives, which torch.distributed.checkpoint loads. The values of each tensor begin at a multiple
// of 4 KiB.
//
//   RankFile file(save_id, rank, boxes);
//   file.write(folder);                  // directly from the tensors
//   file.stage(memory);                  // or copies all contents; then the tensors may change
//   file.write_staged(folder, memory);   // writes the copy
//   const run_folder::ShardIndex index = file.index();
//
// The constructor computes all offsets in the file.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "am/formats/dcp_metadata.h"
#include "am/run_folder/shard_index.h"

namespace am::checkpoint {

struct SavedBox {
  std::string name;
  Shape shape;  // shape of the full tensor
  mesh::Box box;
  at::Tensor value;  // [box.shape], on any device
  // If set, write() and stage() call this function for the values. `value` is then a meta tensor
  // with the shape and dtype of the values.
  std::function<at::Tensor()> make = {};

  at::Tensor values() const { return make ? make() : value; }
};

class RankFile {
 public:
  // `values`: complete torch.save archives, which are written after the tensors.
  RankFile(const std::string& save_id, int64_t rank, std::vector<SavedBox> boxes,
           std::vector<std::string> values = {});

  const std::string& name() const { return name_; }
  uint64_t bytes() const { return bytes_; }
  // Returns the location of each archive of `values` in the file.
  const std::vector<formats::DcpSlice>& value_slices() const { return value_slices_; }

  // Writes the file to `folder`. Throws Error(kIo).
  void write(const std::filesystem::path& folder);
  // Copies the contents of the file to `memory`. `memory` must have at least bytes() bytes and the
  // alignment of allocate_aligned() (base/direct_file.h). With `non_blocking`, `memory` must be
  // pinned, and values on a GPU are copied on the current stream: the caller must wait for this
  // stream before write_staged().
  void stage(std::span<std::byte> memory, bool non_blocking = false) const;
  void write_staged(const std::filesystem::path& folder, std::span<const std::byte> memory);

  // Returns the file's part of the checkpoint's index. write() and write_staged() set the checksums
  // in it.
  const run_folder::ShardIndex& index() const { return index_; }

 private:
  struct Part {
    SavedBox saved;
    std::string dtype;
    run_folder::IndexedBox* place = nullptr;  // the entry of the box in index_
  };

  // Visits the contents of the file in order: calls `values` with each tensor, and `text` with the
  // bytes before, between and behind the tensors' values.
  template <typename Text, typename Values>
  void walk(const Text& text, const Values& values) const;

  std::string name_;
  std::string label_;
  std::vector<Part> parts_;
  std::vector<std::string> values_;
  std::vector<formats::DcpSlice> value_slices_;
  run_folder::ShardIndex index_;
  uint64_t bytes_ = 0;
};

}  // namespace am::checkpoint
