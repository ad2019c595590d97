// Megatron's indexed data set, version 1. PREFIX.bin holds the tokens. PREFIX.idx consists of these
// little-endian fields, where S is the number of sequences, and D the number of documents plus 1:
//
//   "MMIDIDX\0\0", u64 version = 1, u8 type, u64 S, u64 D,
//   S x i32 lengths in tokens, S x i64 byte offsets into PREFIX.bin, D x i64 document borders
//
// The reader ignores the document borders and all bytes behind them (fields of multimodal data).
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/data/mapped_tokens.h"

namespace am::data {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr size_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ErrorKind::kFormat, cat(path.string(), ": ", reason));
}

template <typename T>
T value_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

struct TypeCode {
  uint8_t code;
  TokenType type;
};
// Megatron's codes of the data types that tokens can have. The codes of int8 and of floating-point
// types are left out.
constexpr std::array<TypeCode, 5> kTypeCodes = {{{1, TokenType::kUint8},
                                                 {3, TokenType::kInt16},
                                                 {4, TokenType::kInt32},
                                                 {5, TokenType::kInt64},
                                                 {8, TokenType::kUint16}}};

std::optional<TokenType> type_of_code(uint8_t code) {
  for (const TypeCode& each : kTypeCodes) {
    if (each.code == code) return each.type;
  }
  return std::nullopt;
}

uint8_t code_of_type(TokenType type) {
  const auto* const found = std::find_if(kTypeCodes.begin(), kTypeCodes.end(),
                                         [&](const TypeCode& each) { return each.type == type; });
  AM_ASSERT(found != kTypeCodes.end(), "Megatron has no code for the type");
  return found->code;
}

struct Index {
  MappedFile map;
  uint8_t code = 0;
  uint64_t sequences = 0;
};

Index open_index(const std::filesystem::path& path) {
  Index index{MappedFile(path)};
  const auto bytes = index.map.bytes();
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    fail(path, "not an index file of a Megatron dataset");
  }
  const auto version = value_at<uint64_t>(bytes, 9);
  if (version != 1) fail(path, cat("version ", version, " is not supported, only version 1"));
  index.code = value_at<uint8_t>(bytes, 17);
  index.sequences = value_at<uint64_t>(bytes, 18);
  const uint64_t room = (bytes.size() - kHeaderBytes) / (sizeof(int32_t) + sizeof(int64_t));
  if (index.sequences > room) {
    fail(path, cat("truncated: the header lists ", index.sequences,
                   " sequences, but the file has room for ", room));
  }
  return index;
}

template <typename T>
void append_bytes(std::string& out, std::span<const T> values) {
  out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

template <typename T>
void write_as(FileWriter& file, std::span<const uint32_t> ids) {
  const std::vector<T> values(ids.begin(), ids.end());
  file.write(values.data(), values.size() * sizeof(T));
}

// Returns the sum of the sequences' lengths. Throws Error(kFormat) if a length is negative, or if a
// sequence does not begin where the previous sequence ends. `width`: bytes per token.
int64_t count_tokens(std::span<const std::byte> index, uint64_t sequences, int64_t width,
                     const std::filesystem::path& path) {
  const size_t pointers = kHeaderBytes + sequences * sizeof(int32_t);
  int64_t tokens = 0;
  for (uint64_t i = 0; i < sequences; ++i) {
    const auto length = value_at<int32_t>(index, kHeaderBytes + i * sizeof(int32_t));
    const auto offset = value_at<int64_t>(index, pointers + i * sizeof(int64_t));
    if (length < 0) fail(path, cat("sequence ", i, " has a negative length"));
    if (offset != tokens * width) {
      fail(path, cat("sequence ", i, " does not begin where the previous sequence ends"));
    }
    tokens += length;
  }
  return tokens;
}

}  // namespace

TokenFile open_megatron_file(const std::filesystem::path& path) {
  std::filesystem::path prefix = path;
  if (prefix.extension() == ".bin" || prefix.extension() == ".idx") prefix.replace_extension();
  const std::filesystem::path index_path = prefix.string() + ".idx";
  const Index index = open_index(index_path);
  const auto type = type_of_code(index.code);
  if (!type) {
    fail(index_path, cat("data type ", int{index.code},
                         " cannot hold tokens; legal: 1 (uint8), 3 (int16), 4 (int32), 5 (int64) "
                         "or 8 (uint16)"));
  }
  TokenFile file = open_token_file(prefix.string() + ".bin", *type);
  const int64_t tokens =
      count_tokens(index.map.bytes(), index.sequences, token_bytes(*type), index_path);
  if (tokens > file.size) {
    fail(file.path,
         cat("truncated: the file holds ", file.size, " tokens, but its index lists ", tokens));
  }
  if (tokens == 0) fail(file.path, "the index lists no tokens");
  file.size = tokens;
  return file;
}

std::vector<int32_t> megatron_lengths(const std::filesystem::path& index_path) {
  const Index index = open_index(index_path);
  std::vector<int32_t> lengths(index.sequences);
  std::memcpy(lengths.data(), index.map.bytes().data() + kHeaderBytes,
              lengths.size() * sizeof(int32_t));
  return lengths;
}

MegatronWriter::MegatronWriter(const std::filesystem::path& prefix, TokenType type)
    : index_path_(prefix.string() + ".idx"), type_(type), tokens_(prefix.string() + ".bin") {}

void MegatronWriter::add(std::span<const uint32_t> ids, std::span<const int32_t> lengths) {
  lengths_.insert(lengths_.end(), lengths.begin(), lengths.end());
  switch (token_bytes(type_)) {
    case 1:
      return write_as<uint8_t>(tokens_, ids);
    case 2:
      return write_as<uint16_t>(tokens_, ids);
    default:
      return write_as<uint32_t>(tokens_, ids);
  }
}

void MegatronWriter::finish() {
  tokens_.close();
  std::vector<int64_t> offsets, documents;
  int64_t offset = 0;
  for (const int32_t length : lengths_) {
    documents.push_back(static_cast<int64_t>(offsets.size()));
    offsets.push_back(offset);
    offset += length * token_bytes(type_);
  }
  documents.push_back(static_cast<int64_t>(offsets.size()));
  std::string header(kMagic);
  const std::array<uint64_t, 1> version = {1};
  append_bytes<uint64_t>(header, version);
  header += static_cast<char>(code_of_type(type_));
  const std::array<uint64_t, 2> counts = {lengths_.size(), documents.size()};
  append_bytes<uint64_t>(header, counts);
  FileWriter index(index_path_);
  index.write(header);
  index.write(lengths_.data(), lengths_.size() * sizeof(int32_t));
  index.write(offsets.data(), offsets.size() * sizeof(int64_t));
  index.write(documents.data(), documents.size() * sizeof(int64_t));
  index.close();
}

}  // namespace am::data
