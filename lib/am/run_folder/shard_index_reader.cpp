#include <optional>
#include <span>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json_cursor.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/run_folder/shard_index.h"

namespace am::run_folder {

namespace {

// Number of integers that precede the offset in a box's array: file, position, slice_offset,
// slice_length.
constexpr size_t kPlaceNumbers = 4;

class IndexReader {
 public:
  IndexReader(std::string_view text, const std::string& file, const IndexVisit& visit)
      : json_(text, file), visit_(visit) {}

  ShardIndex read() {
    bool known = false, has_files = false, has_tensors = false;
    // Cursor at the value of "tensors" if this key precedes "files". The value is then read last,
    // because the check of its boxes requires the sizes in "files".
    std::optional<JsonCursor> passed_over;
    std::string key;
    for (json_.begin_object(); json_.next_key(key);) {
      if (key == "format") {
        known = json_.text() == kIndexFormat;
      } else if (key == "version") {
        const int64_t version = json_.natural();
        if (version != kIndexVersion) {
          json_.fail(cat("version ", version, " of the index is not supported; ", kIndexVersion,
                         " is the version of this am-run"));
        }
      } else if (key == "save") {
        index_.save_id = json_.text();
      } else if (key == "files") {
        has_files = true;
        for (json_.begin_array(); json_.next_item();) read_file();
      } else if (key == "tensors") {
        has_tensors = true;
        if (index_.files.empty()) {
          passed_over = json_;
          json_.skip();
        } else {
          read_tensors();
        }
      } else {
        json_.skip();
      }
    }
    json_.end();
    if (!known) json_.fail("it is not an index of an am-run checkpoint");
    if (!has_files || !has_tensors) {
      json_.fail(cat("the index has no \"", has_files ? "tensors" : "files", "\""));
    }
    if (passed_over) {
      json_ = *passed_over;
      read_tensors();
    }
    return std::move(index_);
  }

 private:
  void read_file() {
    json_.begin_array();
    const auto item = [&] {
      if (!json_.next_item()) json_.fail("an entry of \"files\" lacks a name or a size");
    };
    IndexedFile file;
    item();
    file.name = json_.text();
    if (!is_file_name(file.name)) {
      json_.fail(cat("\"", file.name, "\" is not the name of a file in this folder"));
    }
    item();
    file.bytes = static_cast<uint64_t>(json_.natural());
    if (json_.next_item()) json_.fail("an entry of \"files\" has more than a name and a size");
    index_.files.push_back(std::move(file));
  }

  void read_tensors() {
    std::string name;
    for (json_.begin_object(); json_.next_key(name);) {
      IndexedTensor tensor = read_tensor(name, !visit_.wants || visit_.wants(name));
      check(tensor);
      if (visit_.see) visit_.see(tensor);
      index_.tensors.push_back(std::move(tensor));
    }
  }

  IndexedTensor read_tensor(const std::string& name, bool with_boxes) {
    IndexedTensor tensor;
    tensor.name = name;
    numbers_.clear();
    rows_.clear();
    std::string key;
    for (json_.begin_object(); json_.next_key(key);) {
      if (key == "dtype") {
        tensor.dtype = json_.text();
      } else if (key == "shape") {
        for (json_.begin_array(); json_.next_item();) tensor.shape.push_back(json_.natural());
      } else if (key == "boxes" && with_boxes) {
        for (json_.begin_array(); json_.next_item();) {
          for (json_.begin_array(); json_.next_item();) numbers_.push_back(json_.natural());
          rows_.push_back(numbers_.size());
        }
      } else {
        json_.skip();
      }
    }
    tensor.boxes.reserve(rows_.size());
    size_t first = 0;
    for (const size_t end : rows_) {
      const auto row = std::span<const int64_t>(numbers_).subspan(first, end - first);
      tensor.boxes.push_back(box_of(row, tensor.shape.size(), name));
      first = end;
    }
    return tensor;
  }

  IndexedBox box_of(std::span<const int64_t> row, size_t dims, const std::string& name) const {
    if (row.size() < kPlaceNumbers + 2 * dims)
      json_.fail(cat(name, ": a part has too few numbers"));
    const auto at = [&](size_t i) { return row.begin() + static_cast<std::ptrdiff_t>(i); };
    const size_t shape = kPlaceNumbers + dims;
    const size_t sums = shape + dims;
    IndexedBox box;
    if (row[0] > UINT32_MAX)
      json_.fail(cat(name, ": a part is in file number ", row[0], ", which is not listed"));
    box.file = static_cast<uint32_t>(row[0]);
    box.position = static_cast<uint64_t>(row[1]);
    box.slice_offset = static_cast<uint64_t>(row[2]);
    box.slice_length = static_cast<uint64_t>(row[3]);
    box.box = {Shape(at(kPlaceNumbers), at(shape)), Shape(at(shape), at(sums))};
    for (size_t i = sums; i < row.size(); ++i) {
      if (row[i] > UINT32_MAX) json_.fail(cat(name, ": a checksum has more than 32 bits"));
      box.checksums.push_back(static_cast<uint32_t>(row[i]));
    }
    return box;
  }

  // Throws Error(kFormat) if the tensor's dtype, shape or boxes are invalid. Requires that
  // index_.files is complete.
  void check(const IndexedTensor& tensor) const {
    const auto lies = [&](const std::string& what) { json_.fail(cat(tensor.name, ": ", what)); };
    const int64_t element = tensor.element_bytes();
    if (element == 0) lies(cat("unknown dtype \"", tensor.dtype, "\""));
    if (!is_size(tensor.shape, element)) lies("the tensor has more than 2^63 bytes");
    for (const IndexedBox& each : tensor.boxes) {
      for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
        const int64_t size = tensor.shape[dim];
        if (each.box.offset[dim] > size || each.box.shape[dim] > size - each.box.offset[dim]) {
          lies("a part reaches beyond the shape of the tensor");
        }
      }
      if (each.file >= index_.files.size())
        lies(cat("a part is in file number ", each.file, ", which is not listed"));
      const uint64_t size = index_.files[each.file].bytes;
      const auto bytes = static_cast<uint64_t>(each.box.numel() * element);
      if (!lie_inside(each.position, bytes, size) ||
          !lie_inside(each.slice_offset, each.slice_length, size)) {
        lies("a part reaches beyond the end of its file");
      }
      const uint64_t needed = (bytes + kChecksumPiece - 1) / kChecksumPiece;
      if (each.checksums.size() != needed) {
        lies(cat("it lists ", each.checksums.size(), " checksums for ", bytes,
                 " bytes, which need ", needed));
      }
    }
  }
  static bool lie_inside(uint64_t offset, uint64_t length, uint64_t size) {
    return offset <= size && length <= size - offset;
  }
  static bool is_size(const Shape& shape, int64_t element) {
    int64_t bytes = element;
    for (const int64_t size : shape) {
      if (__builtin_mul_overflow(bytes, size, &bytes)) return false;
    }
    return true;
  }

  JsonCursor json_;
  const IndexVisit& visit_;
  // numbers_: the integers of all boxes of one tensor. rows_: for each box, the index in numbers_
  // after its last integer. read_tensor() creates the boxes from these integers when it has read
  // the whole tensor, because "shape" may follow "boxes".
  std::vector<int64_t> numbers_;
  std::vector<size_t> rows_;
  ShardIndex index_;
};

}  // namespace

ShardIndex parse_shard_index(std::string_view text, const std::string& file,
                             const IndexVisit& visit) {
  return IndexReader(text, file, visit).read();
}

ShardIndex read_shard_index(const std::filesystem::path& path, const IndexVisit& visit) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ShardIndex index = parse_shard_index(text, path.string(), visit);
  require_whole(path, bytes);
  return index;
}

}  // namespace am::run_folder
