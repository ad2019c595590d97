// Reads the objects of a JSON Lines file, or of a JSON array.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/data/data_file.h"

namespace am::data {

// Calls visit(number, line) with each line that is not blank. The first line has the number
// `first`; returns the number of the line after the last.
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

// Some consecutive objects of a file.
struct JsonObjects {
  std::string file;
  // Lines with their numbers, views of `block`; empty for the elements of an array.
  std::vector<std::pair<int64_t, std::string_view>> lines;
  DataBlock block;
  std::vector<std::pair<int64_t, Json>> elements;  // elements of an array, with their indices
  int64_t file_bytes = 0;                          // bytes of the file up to the last object

  // Calls `visit` with each object and its place, for example "a.jsonl:7" or "a.json[6]". Throws
  // Error(kFormat) for a line that is not JSON.
  void for_each(
      const std::function<void(const Json& object, const std::string& where)>& visit) const;
};

// Calls `visit` with the objects of a JSON Lines file, or of a file that is one JSON array, in
// order. Each call has lines of about `bytes` bytes.
void for_each_objects(const DataFile& file, int64_t bytes,
                      const std::function<void(JsonObjects)>& visit);

}  // namespace am::data
