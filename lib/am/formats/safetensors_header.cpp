#include "am/formats/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/formats/little_endian.h"

namespace am::formats {
namespace {

constexpr size_t kDeepest = 5;    // limit of nested brackets; {tensor: {shape: [size]}} has 3
constexpr size_t kMostDims = 64;  // limit of ATen, whose operators store sets of dims in 64 bits

// Whether a dtype is one of safetensors' dtypes with fewer than 8 bits per value. These dtypes are
// not supported.
bool is_packed(std::string_view dtype) {
  return dtype == "F4" || dtype == "F6_E2M3" || dtype == "F6_E3M2";
}

// A JSON value of the header that is not an object or array.
struct Scalar {
  std::optional<uint64_t> number;  // the value if it is a non-negative integer
  std::string* text = nullptr;     // the value if it is a text; scalar() may move from *text
  std::string_view shown;          // any other value, as text for messages

  std::string describe() const {
    if (number) return std::to_string(*number);
    return text != nullptr ? cat("\"", *text, "\"") : std::string(shown);
  }
};

// Handler of the header's JSON events, for SortedJson::sax_parse(). Throws Error(kFormat) at the
// first error, with the tensor's name if the error is in an entry.
class HeaderSax final : public SortedJson::json_sax_t {
 public:
  HeaderSax(const std::filesystem::path& path, SafetensorsHeader& header)
      : path_(path), header_(header) {}

  // Throws Error(kFormat) if the header is not a JSON object. Call after parsing the whole text.
  void finish() const {
    if (!is_object_) fail("the header is not a JSON object");
  }

  bool null() override { return scalar({.shown = "null"}); }
  bool boolean(bool value) override { return scalar({.shown = value ? "true" : "false"}); }
  bool number_integer(number_integer_t value) override {
    return scalar({.shown = std::to_string(value)});
  }
  bool number_unsigned(number_unsigned_t value) override { return scalar({.number = value}); }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return scalar({.shown = text});
  }
  bool string(string_t& text) override { return scalar({.text = &text}); }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON has no binary values
  bool start_object(size_t /*size*/) override { return open(true); }
  bool start_array(size_t /*size*/) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t /*position*/, const string_t& /*token*/,
                   const SortedJson::exception& error) override {
    fail(cat("the header is not JSON: ", json_reason(error)));
  }

  bool key(string_t& text) override {
    if (where() == Where::kTop) {
      entry_ = {};
      entry_.name = std::move(text);
      seen_ = {};
    } else {
      key_ = std::move(text);
    }
    return true;
  }

 private:
  // Kinds of JSON objects and arrays in the header. kTop: the header itself; kElsewhere: a value
  // that the reader ignores; kNothing: outside of the header.
  enum class Where { kNothing, kTop, kMetadata, kEntry, kShape, kOffsets, kElsewhere };
  struct Fields {
    bool dtype = false;
    bool shape = false;
    bool offsets = false;
  };

  [[noreturn]] void fail(const std::string& what) const { not_safetensors(path_, what); }
  [[noreturn]] void fail_entry(const std::string& what) const {
    fail(cat("tensor \"", entry_.name, "\": ", what));
  }

  Where where() const { return open_.empty() ? Where::kNothing : open_.back(); }
  bool is_metadata() const { return entry_.name == kMetadataKey; }

  bool open(bool object) {
    if (open_.size() >= kDeepest) fail("the header is nested too deeply");
    open_.push_back(opened(object));
    return true;
  }

  // Returns the kind of the object or array that begins inside where(). Throws Error(kFormat) if
  // the object or array is not allowed there.
  Where opened(bool object) {
    switch (where()) {
      case Where::kNothing:
        is_object_ = object;
        return object ? Where::kTop : Where::kElsewhere;
      case Where::kTop:
        if (!object) refuse_top_value();
        if (!is_metadata()) return Where::kEntry;
        if (std::exchange(has_metadata_, true)) fail_entry("the header names it twice");
        return Where::kMetadata;
      case Where::kMetadata:
        refuse_metadata();
      case Where::kEntry:
        return opened_field(object);
      case Where::kShape:
      case Where::kOffsets:
        refuse_number(object ? "an object" : "an array");
      case Where::kElsewhere:
        return Where::kElsewhere;
    }
    return Where::kElsewhere;
  }

  Where opened_field(bool object) {
    if (key_ == "dtype") fail_entry("its dtype is not text");
    if (key_ == "shape") {
      if (object) fail_entry("its shape is not an array");
      see(seen_.shape);
      return Where::kShape;
    }
    if (key_ == "data_offsets") {
      if (object) fail_entry("data_offsets is not a pair");
      see(seen_.offsets);
      offsets_.clear();
      return Where::kOffsets;
    }
    return Where::kElsewhere;
  }

  bool close() {
    const Where closed = where();
    open_.pop_back();
    if (closed == Where::kOffsets) {
      if (offsets_.size() != 2) fail_entry("data_offsets is not a pair");
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
    }
    if (closed == Where::kEntry) add_entry();
    return true;
  }

  bool scalar(const Scalar& value) {
    switch (where()) {
      case Where::kTop:
        refuse_top_value();
      case Where::kMetadata:
        if (value.text == nullptr) refuse_metadata();
        header_.metadata[key_] = std::move(*value.text);
        break;
      case Where::kEntry:
        take_field(value);
        break;
      case Where::kShape:
        if (entry_.shape.size() == kMostDims) {
          fail_entry(cat("its shape has more than ", kMostDims, " dims"));
        }
        entry_.shape.push_back(static_cast<int64_t>(natural(value)));
        break;
      case Where::kOffsets:
        if (offsets_.size() == 2) fail_entry("data_offsets is not a pair");
        offsets_.push_back(natural(value));
        break;
      case Where::kNothing:
      case Where::kElsewhere:
        break;
    }
    return true;
  }

  void take_field(const Scalar& value) {
    if (key_ == "dtype") {
      if (value.text == nullptr) fail_entry("its dtype is not text");
      see(seen_.dtype);
      entry_.dtype = std::move(*value.text);
    }
    if (key_ == "shape") fail_entry("its shape is not an array");
    if (key_ == "data_offsets") fail_entry("data_offsets is not a pair");
  }

  void see(bool& field) const {
    if (std::exchange(field, true)) fail_entry(cat("its entry has \"", key_, "\" twice"));
  }

  [[noreturn]] void refuse_top_value() const {
    if (is_metadata()) fail(cat(kMetadataKey, " is not a JSON object"));
    fail_entry("its entry is not a JSON object");
  }

  [[noreturn]] void refuse_metadata() const {
    fail(cat(kMetadataKey, ": the value of \"", key_, "\" is not text"));
  }

  [[noreturn]] void refuse_number(std::string_view what) const {
    fail_entry(cat(key_, " holds ", what, ", which is not a whole number from 0 to ", kLargest));
  }

  uint64_t natural(const Scalar& value) const {
    if (!value.number || *value.number > kLargest) refuse_number(value.describe());
    return *value.number;
  }

  void add_entry() {
    for (const auto& [field, seen] : {std::pair{"dtype", seen_.dtype},
                                      {"shape", seen_.shape},
                                      {"data_offsets", seen_.offsets}}) {
      if (!seen) fail_entry(cat("its entry has no \"", field, "\""));
    }
    const int64_t element_size = safetensors_dtype_size(entry_.dtype);
    if (is_packed(entry_.dtype)) {
      throw Error(ErrorKind::kFormat,
                  cat(path_.string(), ": tensor \"", entry_.name, "\" is ", entry_.dtype,
                      ", a packed format of less than one byte per value, which is not supported"),
                  "convert the weights to bfloat16 or float8 with the program that packed them");
    }
    if (element_size == 0) fail_entry(cat("unknown dtype \"", entry_.dtype, "\""));
    const std::string range = cat("data_offsets [", entry_.begin, ", ", entry_.end, ")");
    if (entry_.end < entry_.begin) fail_entry(cat(range, " ends before it begins"));
    const auto bytes = safetensors_byte_size(entry_.shape, element_size);
    const std::string what = cat(entry_.dtype, " of shape ", shape_text(entry_.shape));
    if (!bytes) fail_entry(cat(what, " has more than 2^64 bytes"));
    if (*bytes != entry_.end - entry_.begin) {
      fail_entry(cat(range, " spans ", entry_.end - entry_.begin, " bytes, but ", what, " takes ",
                     *bytes));
    }
    header_.entries.push_back(std::move(entry_));
  }

  static constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

  const std::filesystem::path& path_;
  SafetensorsHeader& header_;
  std::vector<Where> open_;
  bool is_object_ = false;
  bool has_metadata_ = false;
  SafetensorsEntry entry_;  // entry that is being read; `name` is the last top-level key
  std::string key_;         // last key inside an entry or the metadata
  Fields seen_;
  std::vector<uint64_t> offsets_;
};

std::string_view header_text(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) {
    not_safetensors(path,
                    cat("truncated: ", bytes.size(), " bytes cannot hold the header's length"));
  }
  const uint64_t length = little_endian<uint64_t>(bytes);
  if (length > kLongestHeader) {
    not_safetensors(path, cat("its first 8 bytes claim a header of ", length, " bytes; at most ",
                              kLongestHeader, " are allowed"));
  }
  if (length > bytes.size() - kLengthBytes) {
    not_safetensors(path, cat("truncated: the header has ", length, " bytes, but only ",
                              bytes.size() - kLengthBytes, " bytes follow its length"));
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data() + kLengthBytes);
  return {text, static_cast<size_t>(length)};
}

// Throws Error(kFormat) unless the tensors' data cover the data section without holes, overlaps or
// bytes behind the last tensor. If `truncated` is kRefused, also throws for a tensor whose data end
// behind the end of the file. `entries` must be sorted by offset.
void check_coverage(const std::filesystem::path& path, const std::vector<SafetensorsEntry>& entries,
                    uint64_t data_size, Truncated truncated) {
  const auto fail = [&](const SafetensorsEntry& entry, const std::string& what) {
    not_safetensors(path, cat("tensor \"", entry.name, "\": ", what));
  };
  uint64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.end > data_size && truncated == Truncated::kRefused) {
      refuse_truncated(path, entry, data_size);
    }
    if (entry.begin < covered) fail(entry, "its data overlaps another tensor's");
    if (entry.begin > covered) {
      fail(entry, cat(entry.begin - covered, " bytes before its data belong to no tensor"));
    }
    covered = entry.end;
  }
  if (covered < data_size) {
    not_safetensors(path,
                    cat(data_size - covered, " bytes after the last tensor belong to no tensor"));
  }
}

}  // namespace

std::optional<uint64_t> safetensors_byte_size(const Shape& shape, int64_t element_size) {
  auto bytes = static_cast<uint64_t>(element_size);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

void refuse_truncated(const std::filesystem::path& path, const SafetensorsEntry& entry,
                      uint64_t data_size) {
  not_safetensors(path, cat("tensor \"", entry.name, "\": truncated: its data ends at byte ",
                            entry.end, ", but the file has only ", data_size, " bytes of data"));
}

void not_safetensors(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorKind::kFormat, cat(path.string(), ": not a valid safetensors file: ", what),
              "the file may be a part of a download that was cut off; fetch it again");
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path,
                                          std::span<const std::byte> bytes, Truncated truncated) {
  SafetensorsHeader header;
  const std::string_view text = header_text(path, bytes);
  header.data_begin = kLengthBytes + text.size();
  HeaderSax reader(path, header);
  SortedJson::sax_parse(text, &reader);
  reader.finish();
  const auto by_offset = [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  };
  std::stable_sort(header.entries.begin(), header.entries.end(), by_offset);
  check_coverage(path, header.entries, bytes.size() - header.data_begin, truncated);
  return header;
}

}  // namespace am::formats
