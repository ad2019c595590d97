#include "am/formats/parquet/values.h"

#include <cmath>
#include <string>

#include "am/formats/parquet/integers.h"

namespace am::formats::parquet {

namespace {

constexpr int64_t kLargestDictionary = int64_t{1} << 24;

// ---- values to JSON

Json json_of(ValueKind /*kind*/, bool value) { return value; }
Json json_of(ValueKind kind, int32_t value) {
  return kind == ValueKind::kUnsigned ? Json(static_cast<uint32_t>(value)) : Json(value);
}
Json json_of(ValueKind kind, int64_t value) {
  return kind == ValueKind::kUnsigned ? Json(static_cast<uint64_t>(value)) : Json(value);
}
Json json_of(ValueKind /*kind*/, double value) {
  return std::isfinite(value) ? Json(value) : Json();
}
Json json_of(ValueKind kind, float value) { return json_of(kind, static_cast<double>(value)); }

Json json_of(ValueKind kind, std::string_view text) {
  if (kind != ValueKind::kJson) {
    if (!is_utf8(text)) fail_damaged("a text is not UTF-8");
    return std::string(text);
  }
  if (nests_too_deeply(text)) fail_damaged("a JSON value is nested too deeply");
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) fail_damaged("a value of the type JSON is not JSON");
  return value;
}

// ---- encodings

// Little-endian numbers (PLAIN).
template <typename T>
class PlainNumbers {
 public:
  explicit PlainNumbers(Bytes bytes) : bytes_(bytes) {}
  T next() { return bytes_.number<T>(); }

 private:
  ByteReader bytes_;
};

// Booleans of one bit each (PLAIN).
class PlainBooleans {
 public:
  explicit PlainBooleans(Bytes bytes) : bytes_(bytes) {}
  bool next() {
    if (bit_ / 8 >= bytes_.size()) fail_damaged("the values end early");
    return bits_at(bytes_, bit_++, 1) != 0;
  }

 private:
  Bytes bytes_;
  uint64_t bit_ = 0;
};

// Booleans as RLE runs. The size of the runs in bytes precedes them.
class RunBooleans {
 public:
  explicit RunBooleans(Bytes bytes) {
    ByteReader reader(bytes);
    const auto size = reader.number<uint32_t>();
    runs_ = RunReader(reader.take(size), /*width=*/1);
  }
  bool next() { return runs_.next() != 0; }

 private:
  RunReader runs_;
};

// Texts, each preceded by its length (PLAIN).
class PlainTexts {
 public:
  explicit PlainTexts(Bytes bytes) : bytes_(bytes) {}
  std::string_view next() { return as_text(bytes_.take(bytes_.number<uint32_t>())); }

 private:
  ByteReader bytes_;
};

template <typename T>
class DeltaNumbers {
 public:
  explicit DeltaNumbers(Bytes bytes) : numbers_(bytes) {}
  T next() { return static_cast<T>(numbers_.next()); }

 private:
  DeltaReader numbers_;
};

// Returns a length that DELTA_LENGTH_BYTE_ARRAY or DELTA_BYTE_ARRAY stores.
uint64_t next_length(DeltaReader& lengths) {
  const auto length = static_cast<int32_t>(lengths.next());
  if (length < 0) fail_damaged("a text has a negative length");
  return static_cast<uint64_t>(length);
}

// The lengths of all texts, then the texts (DELTA_LENGTH_BYTE_ARRAY).
class DeltaLengthTexts {
 public:
  explicit DeltaLengthTexts(Bytes bytes) : lengths_(bytes) {
    texts_ = ByteReader(DeltaReader(lengths_).skip_all());
  }
  std::string_view next() { return as_text(texts_.take(next_length(lengths_))); }

 private:
  DeltaReader lengths_;
  ByteReader texts_;
};

// Texts that share a prefix with the previous text (DELTA_BYTE_ARRAY): for each text, the length of
// the prefix and the remaining bytes are stored.
class DeltaTexts {
 public:
  explicit DeltaTexts(Bytes bytes)
      : prefixes_(bytes), suffixes_(DeltaReader(prefixes_).skip_all()) {}
  std::string_view next() {
    const uint64_t prefix = next_length(prefixes_);
    if (prefix > text_.size()) fail_damaged("a text's prefix is longer than the previous text");
    text_.resize(static_cast<size_t>(prefix));
    text_ += suffixes_.next();
    return text_;
  }

 private:
  DeltaReader prefixes_;
  DeltaLengthTexts suffixes_;
  std::string text_;
};

template <typename Source>
class SourceValues : public ValueReader {
 public:
  SourceValues(ValueKind kind, Bytes bytes) : kind_(kind), source_(bytes) {}
  Json next() override { return json_of(kind_, source_.next()); }

 private:
  ValueKind kind_;
  Source source_;
};

// Values that are stored as indices into a dictionary. A byte with the number of bits per index
// precedes the indices.
class DictionaryValues : public ValueReader {
 public:
  DictionaryValues(Bytes bytes, const std::vector<Json>& dictionary) : dictionary_(dictionary) {
    ByteReader reader(bytes);
    const auto width = reader.number<uint8_t>();
    if (width > 32) fail_damaged("an index has more than 32 bits");
    indices_ = RunReader(reader.rest(), width);
  }
  Json next() override {
    const size_t index = indices_.next();
    if (index >= dictionary_.size()) {
      fail_damaged(cat("the index ", index, " is outside a dictionary of ", dictionary_.size()));
    }
    return dictionary_[index];
  }

 private:
  const std::vector<Json>& dictionary_;
  RunReader indices_;
};

// The values of a page whose entries are all null. Some writers store no bytes for this page.
class NoValues : public ValueReader {
 public:
  Json next() override { fail_damaged("the values end early"); }
};

template <typename Source>
std::unique_ptr<ValueReader> source(const SchemaLeaf& leaf, Bytes bytes) {
  return std::make_unique<SourceValues<Source>>(leaf.kind, bytes);
}

std::unique_ptr<ValueReader> plain(const SchemaLeaf& leaf, Bytes bytes) {
  switch (leaf.type) {
    case PhysicalType::kBoolean:
      return source<PlainBooleans>(leaf, bytes);
    case PhysicalType::kInt32:
      return source<PlainNumbers<int32_t>>(leaf, bytes);
    case PhysicalType::kInt64:
      return source<PlainNumbers<int64_t>>(leaf, bytes);
    case PhysicalType::kFloat:
      return source<PlainNumbers<float>>(leaf, bytes);
    case PhysicalType::kDouble:
      return source<PlainNumbers<double>>(leaf, bytes);
    case PhysicalType::kByteArray:
      return source<PlainTexts>(leaf, bytes);
    default:
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<ValueReader> read_values(const SchemaLeaf& leaf, Encoding encoding, Bytes bytes,
                                         const std::vector<Json>* dictionary) {
  if (bytes.empty()) return std::make_unique<NoValues>();
  const bool is_text = leaf.type == PhysicalType::kByteArray;
  std::unique_ptr<ValueReader> reader;
  switch (encoding) {
    case Encoding::kPlain:
      reader = plain(leaf, bytes);
      break;
    case Encoding::kPlainDictionary:
    case Encoding::kRleDictionary:
      if (dictionary == nullptr) fail_damaged("the page needs a dictionary, which is missing");
      return std::make_unique<DictionaryValues>(bytes, *dictionary);
    case Encoding::kRle:
      if (leaf.type == PhysicalType::kBoolean) reader = source<RunBooleans>(leaf, bytes);
      break;
    case Encoding::kDeltaBinaryPacked:
      if (leaf.type == PhysicalType::kInt32) reader = source<DeltaNumbers<int32_t>>(leaf, bytes);
      if (leaf.type == PhysicalType::kInt64) reader = source<DeltaNumbers<int64_t>>(leaf, bytes);
      break;
    case Encoding::kDeltaLengthByteArray:
      if (is_text) reader = source<DeltaLengthTexts>(leaf, bytes);
      break;
    case Encoding::kDeltaByteArray:
      if (is_text) reader = source<DeltaTexts>(leaf, bytes);
      break;
    default:
      break;
  }
  if (reader == nullptr) {
    fail_unsupported(cat("values of ", name_of(leaf.type), " in the encoding ", name_of(encoding),
                         " are not supported"));
  }
  return reader;
}

std::vector<Json> read_dictionary(const SchemaLeaf& leaf, const PageHeader& header, Bytes bytes) {
  if (header.encoding != Encoding::kPlain && header.encoding != Encoding::kPlainDictionary) {
    fail_unsupported(
        cat("dictionaries in the encoding ", name_of(header.encoding), " are not supported"));
  }
  if (header.values > kLargestDictionary) {
    fail_unsupported(cat("the dictionary has ", header.values, " values, more than 2^24"));
  }
  const auto values = read_values(leaf, Encoding::kPlain, bytes, nullptr);
  std::vector<Json> dictionary;
  for (int64_t i = 0; i < header.values; ++i) dictionary.push_back(values->next());
  return dictionary;
}

}  // namespace am::formats::parquet
