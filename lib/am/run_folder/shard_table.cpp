#include "am/run_folder/shard_table.h"

#include <cstdio>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"

namespace am::run_folder {

namespace {

bool is_shape(const SortedJson& json) {
  if (!json.is_array()) return false;
  for (const auto& item : json) {
    if (!item.is_number_integer() || item.get<int64_t>() < 0) return false;
  }
  return true;
}

bool box_fits(const ShardRow& row, const Shape& box) {
  if (row.shape.size() != box.size() || row.offset.size() != box.size()) return false;
  for (size_t dim = 0; dim < box.size(); ++dim) {
    if (row.offset[dim] > row.shape[dim] || box[dim] > row.shape[dim] - row.offset[dim])
      return false;
  }
  return true;
}

}  // namespace

std::string rank_file_name(int64_t rank) {
  char name[48];
  std::snprintf(name, sizeof name, "rank-%05lld.safetensors", static_cast<long long>(rank));
  return name;
}

std::string to_metadata(const ShardTable& table) {
  SortedJson json = SortedJson::object();
  for (const auto& [name, row] : table) {
    json[name] = {{"shape", row.shape}, {"offset", row.offset}};
    if (!row.of.empty()) json[name]["of"] = row.of;
  }
  return json.dump();
}

bool is_rank_file(const formats::SafetensorsFile& file) {
  return file.metadata().contains(kShardsKey);
}

ShardTable read_shard_table(const formats::SafetensorsFile& file) {
  const auto lying = [&](const std::string& what) {
    return Error(ErrorKind::kFormat, cat(file.path().string(), ": ", what),
                 "the file was not written by am-run, or is damaged");
  };
  const auto metadata = file.metadata().find(kShardsKey);
  if (metadata == file.metadata().end()) throw lying("the header has no shard table");
  Diagnostics found;
  const auto json = parse_sorted_json(metadata->second, file.path().string(), found);
  if (!json || !json->is_object()) throw lying("the header's shard table is no JSON object");
  ShardTable table;
  for (const auto& entry : file.entries()) {
    const auto row = json->find(entry.name);
    const bool whole = row != json->end() && row->is_object() && row->contains("shape") &&
                       row->contains("offset") && is_shape((*row)["shape"]) &&
                       is_shape((*row)["offset"]);
    if (!whole) throw lying(cat("the shard table does not place ", entry.name));
    ShardRow place{(*row)["shape"].get<Shape>(), (*row)["offset"].get<Shape>()};
    if (row->contains("of")) {
      if (!(*row)["of"].is_string()) throw lying(cat("\"of\" of ", entry.name, " is no name"));
      place.of = (*row)["of"].get<std::string>();
    }
    if (!box_fits(place, entry.shape)) {
      throw lying(cat("the box of ", entry.name, " leaves its tensor"));
    }
    table.emplace(entry.name, std::move(place));
  }
  return table;
}

}  // namespace am::run_folder
