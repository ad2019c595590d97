#include "am/run_folder/shard_index.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <unordered_map>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/json_cursor.h"
#include "am/base/text.h"
#include "am/formats/torch_archive.h"

namespace am::run_folder {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kIndexFormat = "automesh-index";
constexpr int64_t kIndexVersion = 1;
constexpr std::string_view kLabel = "automesh-checkpoint ";
constexpr size_t kLongestLabel = 256;
constexpr size_t kPlaceNumbers = 4;  // file, position, slice_offset, slice_length

// ---- writing

class IndexText {
 public:
  void text(std::string_view value) {
    for (const char c : value) {
      const auto code = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\' || code < 0x20 || code >= 0x7f) {
        out_ += dump_json(Json(std::string(value)), -1);
        return;
      }
    }
    out_.append("\"").append(value).append("\"");
  }
  template <typename Number>
  void number(Number value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    out_.append(digits, end);
  }
  template <typename Numbers>
  void numbers(const Numbers& values) {
    for (const auto value : values) {
      separate();
      number(value);
    }
  }
  void separate() {
    if (out_.back() != '[') out_ += ',';
  }
  IndexText& operator<<(std::string_view raw) {
    out_.append(raw);
    return *this;
  }
  std::string take() && { return std::move(out_); }

 private:
  std::string out_;
};

void append_box(IndexText& out, const IndexedBox& box) {
  out << "[";
  out.number(box.file);
  for (const uint64_t value : {box.position, box.slice_offset, box.slice_length}) {
    out.separate();
    out.number(value);
  }
  out.numbers(box.box.offset);
  out.numbers(box.box.shape);
  out.numbers(box.checksums);
  out << "]";
}

// ---- reading

class IndexReader {
 public:
  IndexReader(std::string_view text, const std::string& file) : json_(text, file) {}

  ShardIndex read() {
    bool known = false;
    std::string key;
    for (json_.begin_object(); json_.next_key(key);) {
      if (key == "format") {
        known = json_.text() == kIndexFormat;
      } else if (key == "version") {
        const int64_t version = json_.natural();
        if (version != kIndexVersion) {
          json_.fail(cat("version ", version, " of the index; ", kIndexVersion, " is known here"));
        }
      } else if (key == "save") {
        index_.save_id = json_.text();
      } else if (key == "files") {
        for (json_.begin_array(); json_.next_item();) read_file();
      } else if (key == "tensors") {
        for (json_.begin_object(); json_.next_key(key);) read_tensor(key);
      } else {
        json_.skip();
      }
    }
    json_.end();
    if (!known) json_.fail("it is no index of an am-run checkpoint");
    for (const IndexedTensor& tensor : index_.tensors) check(tensor);
    return std::move(index_);
  }

 private:
  void read_file() {
    json_.begin_array();
    const auto item = [&] {
      if (!json_.next_item()) json_.fail("a file without its size");
    };
    IndexedFile file;
    item();
    file.name = json_.text();
    if (!is_file_name(file.name)) {
      json_.fail(cat("\"", file.name, "\" is no name of a file in its folder"));
    }
    item();
    file.bytes = static_cast<uint64_t>(json_.natural());
    if (json_.next_item()) json_.fail("a file with more than its size");
    index_.files.push_back(std::move(file));
  }

  void read_tensor(const std::string& name) {
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
      } else if (key == "boxes") {
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
    index_.tensors.push_back(std::move(tensor));
  }

  IndexedBox box_of(std::span<const int64_t> row, size_t dims, const std::string& name) const {
    if (row.size() < kPlaceNumbers + 2 * dims)
      json_.fail(cat(name, ": a box with too few numbers"));
    const auto at = [&](size_t i) { return row.begin() + static_cast<std::ptrdiff_t>(i); };
    const size_t shape = kPlaceNumbers + dims;
    const size_t sums = shape + dims;
    IndexedBox box;
    if (row[0] > UINT32_MAX) json_.fail(cat(name, ": a box of file ", row[0]));
    box.file = static_cast<uint32_t>(row[0]);
    box.position = static_cast<uint64_t>(row[1]);
    box.slice_offset = static_cast<uint64_t>(row[2]);
    box.slice_length = static_cast<uint64_t>(row[3]);
    box.box = {Shape(at(kPlaceNumbers), at(shape)), Shape(at(shape), at(sums))};
    for (size_t i = sums; i < row.size(); ++i) {
      if (row[i] > UINT32_MAX) json_.fail(cat(name, ": a checksum beyond 32 bits"));
      box.checksums.push_back(static_cast<uint32_t>(row[i]));
    }
    return box;
  }

  // Files stand anywhere in the text, so that this comes last.
  void check(const IndexedTensor& tensor) const {
    const auto lies = [&](const std::string& what) { json_.fail(cat(tensor.name, ": ", what)); };
    const int64_t element = tensor.element_bytes();
    if (element == 0) lies(cat("dtype \"", tensor.dtype, "\", which is not known"));
    if (!is_size(tensor.shape, element)) lies("a shape of more than 2^63 bytes");
    for (const IndexedBox& each : tensor.boxes) {
      for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
        const int64_t size = tensor.shape[dim];
        if (each.box.offset[dim] > size || each.box.shape[dim] > size - each.box.offset[dim]) {
          lies("a box that leaves the tensor");
        }
      }
      if (each.file >= index_.files.size()) lies(cat("a box of file ", each.file));
      const uint64_t size = index_.files[each.file].bytes;
      const auto bytes = static_cast<uint64_t>(each.box.numel() * element);
      if (!lie_inside(each.position, bytes, size) ||
          !lie_inside(each.slice_offset, each.slice_length, size)) {
        lies("a box that leaves its file");
      }
      if (each.checksums.size() != (bytes + kChecksumPiece - 1) / kChecksumPiece) {
        lies(cat(each.checksums.size(), " checksums of ", bytes, " bytes"));
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
  // Of the boxes of one tensor, and where each one's end: a box is known when the dims are.
  std::vector<int64_t> numbers_;
  std::vector<size_t> rows_;
  ShardIndex index_;
};

}  // namespace

int64_t IndexedTensor::element_bytes() const { return formats::torch_dtype_size(dtype); }

std::string data_file_name(int64_t rank) { return cat("__", rank, "_0.distcp"); }

std::string data_file_label(const std::string& save_id, int64_t rank) {
  return cat(kLabel, save_id, " rank ", rank, "\n");
}

std::string_view label_of(std::string_view beginning) {
  if (!starts_with(beginning, kLabel)) return {};
  const size_t end = beginning.substr(0, kLongestLabel).find('\n');
  return end == std::string_view::npos ? std::string_view() : beginning.substr(0, end + 1);
}

std::string to_json_text(const ShardIndex& index) {
  IndexText out;
  out << "{\"format\":\"" << kIndexFormat << "\",\"version\":";
  out.number(kIndexVersion);
  out << ",\"save\":";
  out.text(index.save_id);
  out << ",\n\"files\":[";
  for (const IndexedFile& file : index.files) {
    out.separate();
    out << "[";
    out.text(file.name);
    out << ",";
    out.number(file.bytes);
    out << "]";
  }
  out << "],\n\"tensors\":{";
  bool first = true;
  for (const IndexedTensor& tensor : index.tensors) {
    out << (std::exchange(first, false) ? "\n" : ",\n");
    out.text(tensor.name);
    out << ":{\"dtype\":";
    out.text(tensor.dtype);
    out << ",\"shape\":[";
    out.numbers(tensor.shape);
    out << "],\"boxes\":[";
    for (const IndexedBox& box : tensor.boxes) {
      out.separate();
      append_box(out, box);
    }
    out << "]}";
  }
  out << "}}\n";
  return std::move(out).take();
}

ShardIndex parse_shard_index(std::string_view text, const std::string& file) {
  return IndexReader(text, file).read();
}

ShardIndex read_shard_index(const fs::path& path) {
  return parse_shard_index(read_file(path, kAnySize), path.string());
}

ShardIndex merge(std::vector<ShardIndex> parts) {
  ShardIndex all;
  std::unordered_map<std::string, size_t> places;
  for (ShardIndex& part : parts) {
    all.save_id = part.save_id;
    const auto first_file = static_cast<uint32_t>(all.files.size());
    std::move(part.files.begin(), part.files.end(), std::back_inserter(all.files));
    for (IndexedTensor& tensor : part.tensors) {
      for (IndexedBox& box : tensor.boxes) box.file += first_file;
      const auto [place, fresh] = places.emplace(tensor.name, all.tensors.size());
      if (fresh) {
        all.tensors.push_back(std::move(tensor));
        continue;
      }
      IndexedTensor& known = all.tensors[place->second];
      if (known.dtype != tensor.dtype || known.shape != tensor.shape) {
        throw Error(ErrorKind::kFormat, cat(tensor.name, ": two ranks disagree on its shape"));
      }
      std::move(tensor.boxes.begin(), tensor.boxes.end(), std::back_inserter(known.boxes));
    }
  }
  std::sort(all.tensors.begin(), all.tensors.end(),
            [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  return all;
}

}  // namespace am::run_folder
