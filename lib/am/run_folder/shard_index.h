// index.json of a checkpoint. For each box (rectangular part) of each tensor, the index contains
// the data file, the position of the box's values in this file, and the checksums of the values. A
// reader finds all values by this index alone, no matter how many ranks wrote the checkpoint.
// Thousands of ranks write millions of boxes; with IndexVisit, a reader keeps in memory only the
// boxes that it needs.
//
//   const ShardIndex index = read_shard_index("step-100/index.json");
//   index.tensors[0].boxes[3].file;          // index in index.files of "__3_0.distcp"
//
//   {"format": "automesh-index", "version": 1, "save": "..", "files": [["__0_0.distcp", 8192], ..],
//    "tensors": {"model.norm.weight": {"dtype": "float32", "shape": [512], "boxes": [[..], ..]}, ..}}
//
// A box is an array of integers: the number of its file in "files", from 0; the byte offset of its
// values in the file; the byte offset and the length in bytes of the slice that contains the values
// (an archive of torch.save, formats/torch_slice.h); the offset of the box in the tensor and the
// shape of the box, one integer per dim each; and the CRC-32C of each 16 MiB of the values.
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
// Prefix of the names of optimizer tensors, for example "optim.state.NAME.exp_avg".
inline constexpr const char* kOptimizerPrefix = "optim.state.";
// Returns the name of a parameter's state, for example "optim.state.NAME.exp_avg".
std::string state_name(std::string_view parameter, std::string_view state);
// Number of bytes of a box's values per checksum; the last checksum may cover fewer.
inline constexpr uint64_t kChecksumPiece = uint64_t{16} << 20;

struct IndexedBox {
  uint32_t file = 0;      // index in ShardIndex::files
  uint64_t position = 0;  // byte offset of the box's values, which are dense and row-major
  uint64_t slice_offset = 0;
  uint64_t slice_length = 0;
  mesh::Box box;
  std::vector<uint32_t> checksums;
};

struct IndexedTensor {
  std::string name;
  std::string dtype;  // torch's name of the dtype
  Shape shape;
  // The boxes in the data files; ranks write no boxes without elements. None for a tensor that
  // IndexVisit skips.
  std::vector<IndexedBox> boxes;

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

// Returns the name of a rank's data file, for example "__3_0.distcp".
std::string data_file_name(int64_t rank);
// Returns the label with which a data file begins. The label contains the rank and the id of the
// save (CheckpointInfo::save_id), so that readers detect a mix of files of several saves.
std::string data_file_label(const std::string& save_id, int64_t rank);
// Maximum number of bytes of a label.
inline constexpr size_t kLongestLabel = 256;
// Returns the label at the start of `beginning`, the first bytes of a data file. Returns an empty
// view if `beginning` does not start with a complete label.
std::string_view label_of(std::string_view beginning);

// Filters an index while it is read, tensor by tensor. At any time, memory holds only the boxes
// that passed the filter, and all boxes of the tensor that is being read. Empty functions filter
// nothing.
struct IndexVisit {
  // Returns whether to read a tensor's boxes. If false, the boxes are skipped and not checked.
  std::function<bool(const std::string& name)> wants;
  // Called with each tensor after it was read and checked. May modify the tensor, for example
  // remove boxes.
  std::function<void(IndexedTensor& tensor)> see;
};

std::string to_json_text(const ShardIndex& index);
// Parses an index. Throws Error(kFormat) if the index is invalid, for example if a box reaches
// beyond its tensor or its data file, if a box has a wrong number of checksums, or if a data file's
// name leads out of the checkpoint's folder. Does not check whether the boxes cover their tensors.
// `file`: name of the index, for messages only.
ShardIndex parse_shard_index(std::string_view text, const std::string& file,
                             const IndexVisit& visit = {});
// Reads an index file and parses it as parse_shard_index() does. Throws also Error(kIo) if the file
// cannot be read.
ShardIndex read_shard_index(const std::filesystem::path& path, const IndexVisit& visit = {});

// Merges the indices that several ranks of one save have created for their own data files. Tensors
// of the result are in natural order of their names: layers.2 precedes layers.10. Throws
// Error(kFormat) if the indices contain different dtypes or shapes for a tensor.
ShardIndex merge(std::vector<ShardIndex> parts);

}  // namespace am::run_folder
