#include "am/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"

namespace am::formats {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // the reference implementation's limit
constexpr int kDeepest = 4;                       // {tensor: {shape: [size]}}
constexpr const char* kMetadataKey = "__metadata__";

struct DtypeSize {
  std::string_view name;
  int64_t size;
};
constexpr std::array<DtypeSize, 17> kDtypes = {{{"F64", 8},
                                                {"F32", 4},
                                                {"F16", 2},
                                                {"BF16", 2},
                                                {"F8_E4M3", 1},
                                                {"F8_E5M2", 1},
                                                {"F8_E8M0", 1},
                                                {"I64", 8},
                                                {"I32", 4},
                                                {"I16", 2},
                                                {"I8", 1},
                                                {"U64", 8},
                                                {"U32", 4},
                                                {"U16", 2},
                                                {"U8", 1},
                                                {"BOOL", 1},
                                                {"C64", 8}}};

uint64_t read_little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = kLengthBytes; i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[i]);
  return value;
}

// Bytes of a tensor; nothing when the product does not fit in 64 bits.
std::optional<uint64_t> byte_size(const Shape& shape, int64_t element_size) {
  auto bytes = static_cast<uint64_t>(element_size);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

// Reads one file's header and checks it against the file's size.
class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& path, std::span<const std::byte> bytes)
      : path_(path), bytes_(bytes) {}

  void read() {
    const SortedJson header = parse(header_text());
    if (!header.is_object()) fail("the header is no JSON object");
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey) {
        read_metadata(value);
      } else {
        entries.push_back(read_entry(name, value));
      }
    }
    check_coverage();
  }

  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
  size_t data_begin = 0;

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kFormat, cat(path_.string(), ": not a valid safetensors file: ", what),
                "the file may be a part of a download that was cut off; fetch it again");
  }

  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    fail(cat("tensor \"", name, "\": ", what));
  }

  std::string_view header_text() {
    if (bytes_.size() < kLengthBytes) {
      fail(cat("truncated: ", bytes_.size(), " bytes cannot hold the header's length"));
    }
    const uint64_t length = read_little_endian(bytes_);
    if (length > kLongestHeader) {
      fail(cat("its first 8 bytes claim a header of ", length, " bytes; at most ", kLongestHeader,
               " are allowed"));
    }
    if (length > bytes_.size() - kLengthBytes) {
      fail(cat("truncated: the header takes ", length, " bytes, the file holds ",
               bytes_.size() - kLengthBytes, " after the length"));
    }
    data_begin = kLengthBytes + static_cast<size_t>(length);
    const auto* text = reinterpret_cast<const char*>(bytes_.data() + kLengthBytes);
    return {text, static_cast<size_t>(length)};
  }

  SortedJson parse(std::string_view text) const {
    // A JSON object keeps one of two equal keys, so they are caught while parsing.
    std::set<std::string> seen;
    std::string twice;
    const auto watch = [&](int depth, SortedJson::parse_event_t event, SortedJson& parsed) {
      if (depth > kDeepest) fail("the header nests deeper than its format does");
      if (event == SortedJson::parse_event_t::key && depth == 1) {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!seen.insert(key).second) twice = key;
      }
      return true;
    };
    SortedJson header;
    try {
      header = SortedJson::parse(text, watch);
    } catch (const SortedJson::exception& error) {
      fail(cat("the header is not JSON: ", error.what()));
    }
    if (!twice.empty()) fail(twice, "the header names it twice");
    return header;
  }

  void read_metadata(const SortedJson& value) {
    if (!value.is_object()) fail(cat(kMetadataKey, " is no JSON object"));
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail(cat(kMetadataKey, ": the value of \"", key, "\" is no text"));
      metadata[key] = text.get<std::string>();
    }
  }

  SafetensorsEntry read_entry(const std::string& name, const SortedJson& value) const {
    if (!value.is_object()) fail(name, "its entry is no JSON object");
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!value.contains(field)) fail(name, cat("its entry has no \"", field, "\""));
    }
    SafetensorsEntry entry;
    entry.name = name;
    if (!value["dtype"].is_string()) fail(name, "its dtype is no text");
    entry.dtype = value["dtype"].get<std::string>();
    const int64_t element_size = safetensors_dtype_size(entry.dtype);
    if (element_size == 0) fail(name, cat("unknown dtype \"", entry.dtype, "\""));
    if (!value["shape"].is_array()) fail(name, "its shape is no array");
    for (const SortedJson& size : value["shape"]) {
      entry.shape.push_back(static_cast<int64_t>(natural(name, "shape", size)));
    }
    const SortedJson& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2) fail(name, "data_offsets is no pair");
    entry.begin = natural(name, "data_offsets", offsets[0]);
    entry.end = natural(name, "data_offsets", offsets[1]);
    check_size(entry, element_size);
    return entry;
  }

  uint64_t natural(const std::string& name, const char* field, const SortedJson& number) const {
    constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!number.is_number_unsigned() || number.get<uint64_t>() > kLargest) {
      const std::string what =
          number.is_structured() ? cat("an ", number.type_name()) : dump_json(number, -1);
      fail(name, cat(field, " holds ", what, ", which is no whole number from 0 to ", kLargest));
    }
    return number.get<uint64_t>();
  }

  void check_size(const SafetensorsEntry& entry, int64_t element_size) const {
    const std::string range = cat("data_offsets [", entry.begin, ", ", entry.end, ")");
    if (entry.end < entry.begin) fail(entry.name, cat(range, " ends before it begins"));
    const auto bytes = byte_size(entry.shape, element_size);
    const std::string what = cat(entry.dtype, " of shape ", shape_text(entry.shape));
    if (!bytes) fail(entry.name, cat(what, " has more than 2^64 bytes"));
    if (*bytes != entry.end - entry.begin) {
      fail(entry.name,
           cat(range, " spans ", entry.end - entry.begin, " bytes, but ", what, " takes ", *bytes));
    }
  }

  // No holes, no overlaps, nothing behind the last tensor.
  void check_coverage() {
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    const uint64_t data_size = bytes_.size() - data_begin;
    uint64_t covered = 0;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.end > data_size) {
        fail(entry.name, cat("truncated: its data ends at byte ", entry.end,
                             " of the data, the file has ", data_size));
      }
      if (entry.begin < covered) fail(entry.name, "its data overlaps another tensor's");
      if (entry.begin > covered) {
        fail(entry.name, cat(entry.begin - covered, " bytes before its data belong to no tensor"));
      }
      covered = entry.end;
    }
    if (covered != data_size) {
      fail(cat(data_size - covered, " bytes behind the last tensor belong to no tensor"));
    }
  }

  const std::filesystem::path& path_;
  std::span<const std::byte> bytes_;
};

}  // namespace

int64_t safetensors_dtype_size(std::string_view dtype) {
  for (const DtypeSize& known : kDtypes) {
    if (known.name == dtype) return known.size;
  }
  return 0;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.path_ = path;
  file.file_ = std::make_shared<const MappedFile>(path);
  HeaderReader header(path, file.file_->bytes());
  header.read();
  file.entries_ = std::move(header.entries);
  file.metadata_ = std::move(header.metadata);
  file.data_begin_ = header.data_begin;
  for (size_t i = 0; i < file.entries_.size(); ++i) file.by_name_[file.entries_[i].name] = i;
  return file;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &entries_[at->second];
}

std::span<const std::byte> SafetensorsFile::data(const SafetensorsEntry& entry) const {
  return file_->bytes().subspan(data_begin_ + entry.begin, entry.end - entry.begin);
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<SafetensorsItem>& items,
                                     const std::map<std::string, std::string>& metadata)
    : writer_(path) {
  SortedJson header = SortedJson::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::set<std::string_view> seen;
  for (const SafetensorsItem& item : items) {
    AM_ASSERT(seen.insert(item.name).second && item.name != kMetadataKey,
              cat("safetensors: the name \"", item.name, "\" cannot be written (again)"));
    const int64_t element_size = safetensors_dtype_size(item.dtype);
    AM_ASSERT(element_size != 0, cat("safetensors: unknown dtype \"", item.dtype, "\""));
    const auto bytes = byte_size(item.shape, element_size);
    AM_ASSERT(bytes.has_value(), cat("safetensors: \"", item.name, "\" has more than 2^64 bytes"));
    SortedJson& entry = header[item.name];
    entry["dtype"] = item.dtype;
    entry["shape"] = item.shape;
    entry["data_offsets"] = {expected_, expected_ + *bytes};
    expected_ += *bytes;
  }
  std::string text = dump_json(header, -1);
  // Spaces, so that the data begin at a multiple of 8 in the file and can be used as they are
  // mapped.
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  AM_ASSERT(text.size() <= kLongestHeader, "safetensors: the header is too long for the format");
  std::array<char, kLengthBytes> length;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i) & 0xFF);
  }
  writer_.write(length.data(), length.size());
  writer_.write(text);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  AM_ASSERT(bytes.size() <= expected_ - written_, "safetensors: more bytes than the header names");
  writer_.write(bytes.data(), bytes.size());
  written_ += bytes.size();
}

void SafetensorsWriter::close() {
  AM_ASSERT(written_ == expected_,
            cat("safetensors: ", expected_ - written_, " bytes are missing"));
  writer_.close();
}

}  // namespace am::formats
