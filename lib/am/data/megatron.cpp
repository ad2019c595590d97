// Megatron's indexed data set, version 1: PREFIX.bin holds the tokens, PREFIX.idx is
//
//   "MMIDIDX\0\0", u64 version = 1, u8 type, u64 sequences S, u64 documents D,
//   S x i32 lengths in tokens, S x i64 byte offsets into PREFIX.bin, D x i64 document borders
//
// all little-endian. Longer indices (multimodal data) continue after that; the rest is ignored.
#include <cstring>
#include <optional>

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

std::optional<TokenType> type_of_code(uint8_t code) {
  switch (code) {
    case 1:
      return TokenType::kUint8;
    case 3:
      return TokenType::kInt16;
    case 4:
      return TokenType::kInt32;
    case 5:
      return TokenType::kInt64;
    case 8:
      return TokenType::kUint16;
    default:
      return std::nullopt;  // signed bytes and floating point cannot be tokens
  }
}

// Returns the sum of the sequences' lengths. Throws if a sequence does not begin where the previous
// one ended.
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
  const MappedFile index_map(index_path);
  const auto index = index_map.bytes();
  if (index.size() < kHeaderBytes || std::memcmp(index.data(), kMagic.data(), kMagic.size()) != 0) {
    fail(index_path, "not an index file of a Megatron dataset");
  }
  const auto version = value_at<uint64_t>(index, 9);
  if (version != 1) fail(index_path, cat("version ", version, " is not supported, only version 1"));
  const auto code = value_at<uint8_t>(index, 17);
  const auto type = type_of_code(code);
  if (!type) fail(index_path, cat("data type ", int{code}, " is not an integer type"));
  const auto sequences = value_at<uint64_t>(index, 18);
  const uint64_t room = (index.size() - kHeaderBytes) / (sizeof(int32_t) + sizeof(int64_t));
  if (sequences > room) {
    fail(index_path, cat("truncated: the header gives ", sequences,
                         " sequences, but the file has room for ", room));
  }
  TokenFile file = open_token_file(prefix.string() + ".bin", *type);
  const int64_t tokens = count_tokens(index, sequences, token_bytes(*type), index_path);
  if (tokens > file.size) {
    fail(file.path,
         cat("truncated: the file holds ", file.size, " tokens, but its index gives ", tokens));
  }
  if (tokens == 0) fail(file.path, "the index lists no tokens");
  file.size = tokens;
  return file;
}

}  // namespace am::data
