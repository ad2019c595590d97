// index.json: where every part of every tensor of a checkpoint lies, in which bytes of which file,
// and their checksums. It is all that is read of a checkpoint before its data, whatever the number
// of ranks that wrote it.
//
//   const ShardIndex index = read_shard_index("step-100/index.json");
//   index.tensors[0].boxes[3].file;          // in index.files: "__3_0.distcp"
//
//   {"format": "automesh-index", "version": 1, "save": "..", "files": [["__0_0.distcp", 8192], ..],
//    "tensors": {"model.norm.weight": {"dtype": "float32", "shape": [512], "boxes": [[..], ..]}, ..}}
//
// A box is a row of whole numbers: file, position of its values in it, offset and length of the
// slice around them (an archive of torch.save, formats/torch_slice.h), offset in the tensor, shape,
// and the CRC-32C of each 16 MiB of its values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::run_folder {

inline constexpr const char* kIndexFile = "index.json";
// Names of tensors that are no parameters: "optim.state.NAME.exp_avg".
inline constexpr const char* kOptimizerPrefix = "optim.state.";
// Values that one checksum is of.
inline constexpr uint64_t kChecksumPiece = uint64_t{16} << 20;

struct IndexedBox {
  uint32_t file = 0;
  uint64_t position = 0;  // of the values, which are dense and row-major
  uint64_t slice_offset = 0;
  uint64_t slice_length = 0;
  mesh::Box box;
  std::vector<uint32_t> checksums;
};

struct IndexedTensor {
  std::string name;
  std::string dtype;  // torch's name
  Shape shape;
  std::vector<IndexedBox> boxes;  // none is empty

  int64_t element_bytes() const;
};

struct IndexedFile {
  std::string name;
  uint64_t bytes = 0;
};

struct ShardIndex {
  std::string save_id;
  std::vector<IndexedFile> files;
  std::vector<IndexedTensor> tensors;
};

// "__3_0.distcp"
std::string data_file_name(int64_t rank);
// What data files begin with, before their first slice: which save they belong to.
std::string data_file_label(const std::string& save_id, int64_t rank);
// The label of a file; empty where it has none.
std::string_view label_of(std::string_view beginning);

std::string to_json_text(const ShardIndex& index);
// Throws Error(kFormat), which names `file`, for what is no index: a box that leaves its tensor or
// its file, another number of checksums, a file outside the folder. Whether the boxes make up their
// tensors is not looked at.
ShardIndex parse_shard_index(std::string_view text, const std::string& file);
ShardIndex read_shard_index(const std::filesystem::path& path);

// Several ranks' indices as one, in natural order of the tensors' names. Throws Error(kFormat)
// where two disagree on a tensor's dtype or shape.
ShardIndex merge(std::vector<ShardIndex> parts);

}  // namespace am::run_folder
