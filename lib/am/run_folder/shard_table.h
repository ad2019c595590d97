// Where a rank file's boxes stand in their global tensors: the `__metadata__` entry "shards" of its
// header.
#pragma once

#include <map>
#include <string>

#include "am/base/shape.h"
#include "am/formats/safetensors.h"

namespace am::run_folder {

inline constexpr const char* kOptimizerPrefix = "optim.state.";
// Entries of a rank file's `__metadata__`.
inline constexpr const char* kShardsKey = "shards";
inline constexpr const char* kSaveKey = "save";

struct ShardRow {
  Shape shape;          // global
  Shape offset;         // of this box
  std::string of = {};  // the tensor, where the entry has another name: its second box, and so on
};
using ShardTable = std::map<std::string, ShardRow, std::less<>>;

// "rank-00003.safetensors"
std::string rank_file_name(int64_t rank);
std::string to_metadata(const ShardTable& table);
// Whether a rank of am-run wrote it: its tensors are boxes of larger ones.
bool is_rank_file(const formats::SafetensorsFile& file);
// Checks that there is a row for each entry, and that the boxes lie inside their shapes. Throws
// Error(kFormat).
ShardTable read_shard_table(const formats::SafetensorsFile& file);

}  // namespace am::run_folder
