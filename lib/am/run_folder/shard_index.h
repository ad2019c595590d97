// index.json: for every box of every tensor of a checkpoint, its data file, the position of its
// bytes, and their checksums. Readers read only index.json before the data, however many ranks
// wrote the checkpoint. Thousands of ranks write millions of boxes; a reader keeps only the boxes
// that it needs.
//
//   const ShardIndex index = read_shard_index("step-100/index.json");
//   index.tensors[0].boxes[3].file;          // in index.files: "__3_0.distcp"
//
//   {"format": "automesh-index", "version": 1, "save": "..", "files": [["__0_0.distcp", 8192], ..],
//    "tensors": {"model.norm.weight": {"dtype": "float32", "shape": [512], "boxes": [[..], ..]}, ..}}
//
// A box is an array of integers: number of its file, position of its values in the file, offset and
// length of the slice around the values (an archive of torch.save, formats/torch_slice.h), offset
// in the tensor, shape, and the CRC-32C of each 16 MiB of the values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::run_folder {

inline constexpr const char* kIndexFile = "index.json";
inline constexpr std::string_view kIndexFormat = "automesh-index";
inline constexpr int64_t kIndexVersion = 1;
// Prefix of optimizer tensors: "optim.state.NAME.exp_avg".
inline constexpr const char* kOptimizerPrefix = "optim.state.";
// Bytes of values that one checksum covers.
inline constexpr uint64_t kChecksumPiece = uint64_t{16} << 20;

struct IndexedBox {
  uint32_t file = 0;
  uint64_t position = 0;  // position in the file of the values, dense and row-major
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
// Returns the label at the beginning of a data file, before its first slice, which identifies the
// save.
std::string data_file_label(const std::string& save_id, int64_t rank);
// Maximum length of a label.
inline constexpr size_t kLongestLabel = 256;
// Returns the label of a file from its first bytes; empty if it has none.
std::string_view label_of(std::string_view beginning);

// Filters an index while it is read, tensor by tensor, so that memory holds only the kept boxes and
// the boxes of one tensor. Empty functions keep everything.
struct IndexVisit {
  // Whether the tensor's boxes are read; otherwise they are skipped, unchecked.
  std::function<bool(const std::string& name)> wants;
  // Called with each tensor after it is read and checked; may modify the tensor, e.g. remove boxes.
  std::function<void(IndexedTensor& tensor)> see;
};

std::string to_json_text(const ShardIndex& index);
// Parses an index. Throws Error(kFormat), which names `file`, for an invalid index, e.g. a box
// outside its tensor or file, a wrong number of checksums, or a file outside the folder. Does not
// check whether the boxes cover their tensors.
ShardIndex parse_shard_index(std::string_view text, const std::string& file,
                             const IndexVisit& visit = {});
ShardIndex read_shard_index(const std::filesystem::path& path, const IndexVisit& visit = {});

// Merges several ranks' indices; tensors are in natural order of their names. Throws Error(kFormat)
// if two indices disagree on a tensor's dtype or shape.
ShardIndex merge(std::vector<ShardIndex> parts);

}  // namespace am::run_folder
