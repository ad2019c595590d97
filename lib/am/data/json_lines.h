// Reads the objects of a JSON Lines file, a JSON array or a Parquet file. Each row of a Parquet
// file becomes an object.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/data/data_file.h"

namespace am::data {

// Calls visit(number, line) for each line that is not blank. Numbers count all lines, from `first`
// for the first line. Returns the number that a line appended to `text` would have.
template <typename Visit>
int64_t for_each_line(std::string_view text, int64_t first, const Visit& visit) {
  int64_t number = first;
  for (; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!trim(line).empty()) visit(number, line);
  }
  return number;
}

// Some consecutive objects of a file, in one of the three members `lines`, `elements` and `rows`.
struct JsonObjects {
  std::string file;
  // Lines with their numbers. The views point into `block`. Empty for an array or a Parquet file.
  std::vector<std::pair<int64_t, std::string_view>> lines;
  DataBlock block;
  std::vector<std::pair<int64_t, Json>> elements;  // elements of an array, with their indices
  std::vector<std::pair<int64_t, Json>> rows;      // rows of a Parquet file, with their numbers
  int64_t file_bytes = 0;  // approximate bytes of the file up to the last object, for progress

  // Calls `visit` with each object and its position, for example "a.jsonl:7", "a.json[6]" or
  // "a.parquet:7". Throws Error(kFormat) for a line that is not JSON or nests too deeply.
  void for_each(
      const std::function<void(const Json& object, const std::string& where)>& visit) const;
};

// Calls `visit` with consecutive objects of a file, in order. Each call passes lines or rows of
// about `bytes` bytes in total, or up to 1000 elements of an array. Objects from a Parquet file
// contain only the columns named in `keys`. Throws Error(kFormat) if the file is damaged. Lines are
// not parsed before JsonObjects::for_each().
void for_each_objects(const DataFile& file, std::span<const std::string> keys, int64_t bytes,
                      const std::function<void(JsonObjects)>& visit);

}  // namespace am::data
