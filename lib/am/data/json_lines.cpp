#include "am/data/json_lines.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/formats/parquet/table.h"

namespace am::data {

namespace {

bool is_array(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '[';
}

// Parses `text`. Throws Error(kFormat) if the JSON nests too deeply, because chat templates process
// values recursively. For invalid JSON, returns a value whose is_discarded() is true.
Json parse(std::string_view text, const std::string& where) {
  if (nests_too_deeply(text)) {
    throw Error(ErrorKind::kFormat, cat(where, ": the JSON is nested deeper than 100 levels"));
  }
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

void visit_array(const DataFile& file, const std::function<void(JsonObjects)>& visit) {
  const DataBlock whole = file.whole();
  Json all = parse(whole.text, file.path().string());
  if (!all.is_array()) {
    throw Error(ErrorKind::kFormat, cat(file.path().string(), ": this is not JSON"));
  }
  constexpr size_t kElements = 1000;
  for (size_t first = 0; first < all.size(); first += kElements) {
    JsonObjects objects;
    objects.file = file.path().string();
    const size_t end = std::min(all.size(), first + kElements);
    for (size_t i = first; i < end; ++i) {
      objects.elements.emplace_back(static_cast<int64_t>(i), std::move(all[i]));
    }
    objects.file_bytes =
        whole.file_bytes * static_cast<int64_t>(end) / static_cast<int64_t>(all.size());
    visit(std::move(objects));
  }
}

void visit_table(const DataFile& file, std::span<const std::string> keys, int64_t bytes,
                 const std::function<void(JsonObjects)>& visit) {
  const formats::parquet::Table table(file.path(), file.stored());
  // Maximum number of rows per call of `visit`. `bytes` does not limit rows that contain none of
  // `keys`: their size counts as 0.
  constexpr size_t kMostRows = 1 << 16;
  JsonObjects objects;
  int64_t size = 0;
  const auto flush = [&](int64_t last) {
    objects.file = file.path().string();
    objects.file_bytes =
        static_cast<int64_t>(as_double(static_cast<int64_t>(file.stored().size())) *
                             as_double(last) / as_double(table.rows()));
    visit(std::exchange(objects, {}));
    size = 0;
  };
  table.for_each_row(keys, [&](formats::parquet::Row row) {
    objects.rows.emplace_back(row.number, std::move(row.object));
    size += row.bytes;
    const bool full = size >= bytes || objects.rows.size() == kMostRows;
    if (full || row.number == table.rows()) flush(row.number);
  });
}

}  // namespace

void JsonObjects::for_each(
    const std::function<void(const Json& object, const std::string& where)>& visit) const {
  for (const auto& [number, line] : lines) {
    const std::string where = cat(file, ":", number);
    const Json object = parse(line, where);
    if (object.is_discarded())
      throw Error(ErrorKind::kFormat, cat(where, ": the line is not JSON"));
    visit(object, where);
  }
  for (const auto& [number, object] : rows) visit(object, cat(file, ":", number));
  for (const auto& [index, object] : elements) visit(object, cat(file, "[", index, "]"));
}

void for_each_objects(const DataFile& file, std::span<const std::string> keys, int64_t bytes,
                      const std::function<void(JsonObjects)>& visit) {
  if (file.is_table()) return visit_table(file, keys, bytes, visit);
  if (is_array(file.beginning().text)) return visit_array(file, visit);
  int64_t number = 1;
  file.for_each_block([&](const DataBlock& block) {
    JsonObjects objects;
    int64_t size = 0;
    const auto flush = [&](const char* end) {
      if (objects.lines.empty()) return;
      objects.file = file.path().string();
      objects.block = block;
      // A block without an owner is a whole uncompressed file. The last `left` bytes of this block
      // follow the objects that are passed now.
      const auto left = static_cast<int64_t>(block.text.data() + block.text.size() - end);
      objects.file_bytes = block.file_bytes - (block.owner ? 0 : left);
      visit(std::exchange(objects, {}));
      size = 0;
    };
    number = for_each_line(block.text, number, [&](int64_t line_number, std::string_view line) {
      objects.lines.emplace_back(line_number, line);
      size += static_cast<int64_t>(line.size());
      if (size >= bytes) flush(line.data() + line.size());
    });
    flush(block.text.data() + block.text.size());
  });
}

}  // namespace am::data
