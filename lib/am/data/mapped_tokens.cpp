#include "am/data/mapped_tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "am/base/error.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/data/file_format.h"
#include "am/data/paths.h"

namespace am::data {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read without a byte swap");

template <typename T>
void widen(const std::byte* from, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    out[i] = static_cast<int64_t>(value);
  }
}

// Reads the tokens [first, first + out.size()) of `file` into `out`.
void read_tokens(const TokenFile& file, int64_t first, std::span<int64_t> out) {
  const std::byte* from = file.map.bytes().data() + file.begin + first * token_bytes(file.type);
  switch (file.type) {
    case TokenType::kUint8:
      return widen<uint8_t>(from, out);
    case TokenType::kInt16:
      return widen<int16_t>(from, out);
    case TokenType::kUint16:
      return widen<uint16_t>(from, out);
    case TokenType::kInt32:
      return widen<int32_t>(from, out);
    case TokenType::kUint32:
      return widen<uint32_t>(from, out);
    case TokenType::kInt64:
      return widen<int64_t>(from, out);
  }
}

void check_ids(const TokenFile& file, int64_t first, std::span<const int64_t> ids,
               int64_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    throw Error(ErrorKind::kFormat,
                cat(file.path.string(), ": token ", first + static_cast<int64_t>(i), " is ", ids[i],
                    ", but the model's vocab_size is ", vocab_size),
                "the tokens may be of another model; for data.kind = \"tokens\", also check "
                "data.token_dtype");
  }
}

// Throws Error(kFormat) if a file that is read as uint16 evidently contains wider integers: every
// second of its first 4096 values is 0. Without this check, half of the tokens in training would be
// token 0.
void refuse_wider_integers(const TokenFile& file) {
  constexpr int64_t kLooked = 4096;
  constexpr int64_t kFew = 16;
  if (file.size < kFew) return;
  std::vector<int64_t> ids(static_cast<size_t>(std::min(file.size, kLooked)));
  read_tokens(file, 0, ids);
  bool even_zero = true;
  bool odd_zero = true;
  for (size_t i = 0; i < ids.size(); ++i) {
    bool& zero = i % 2 == 0 ? even_zero : odd_zero;
    zero = zero && ids[i] == 0;
  }
  if (even_zero || !odd_zero) return;
  throw Error(ErrorKind::kFormat,
              cat(file.path.string(),
                  ": the integers have more than 2 bytes: read as uint16, every second token is 0"),
              "set data.token_dtype = \"uint32\"; convert 64-bit integers to uint32 first");
}

// The header of a token shard consists of 256 int32 values. The first is a magic number, and the
// third is the number of tokens. After the magic number kSizedMagic, the fourth is the number of
// bytes per token. Sources: llm.c (dev/data), modded-nanogpt (data/), and NeMo AutoModel's
// datasets/llm/nanogpt_dataset.py (kSizedMagic).
constexpr int64_t kShardHeaderBytes = 1024;
constexpr int32_t kUint16Magic = 20240520;
constexpr int32_t kUint32Magic = 20240801;
constexpr int32_t kSizedMagic = 278895051;

// Returns the bytes per token of a shard; 0 if `header` is not a shard's header.
int64_t bytes_of_shard(std::span<const int32_t> header) {
  if (header[0] == kUint16Magic) return 2;
  if (header[0] == kUint32Magic) return 4;
  return header[0] == kSizedMagic && (header[3] == 2 || header[3] == 4) ? header[3] : 0;
}

// Sets file.type, file.begin and file.size from the header of a shard. Returns false if the file
// does not begin with a shard's header. Throws Error(kFormat) if the shard is truncated.
bool read_shard_header(TokenFile& file) {
  const auto bytes = file.map.bytes();
  std::array<int32_t, 4> header{};
  if (static_cast<int64_t>(bytes.size()) < kShardHeaderBytes) return false;
  std::memcpy(header.data(), bytes.data(), sizeof(header));
  const int64_t each = bytes_of_shard(header);
  if (each == 0) return false;
  file.type = each == 2 ? TokenType::kUint16 : TokenType::kUint32;
  file.begin = kShardHeaderBytes;
  file.size = header[2];
  const int64_t there = static_cast<int64_t>(bytes.size()) - kShardHeaderBytes;
  if (file.size <= 0 || file.size > there / each) {
    throw Error(ErrorKind::kFormat,
                cat(file.path.string(), ": the header announces ", file.size, " tokens of ", each,
                    " bytes, but ", there, " bytes follow it"),
                "the file is truncated; write it again");
  }
  return true;
}

// Sets the number of tokens of a headerless file. Throws the errors of open_token_file().
void measure_headerless(TokenFile& file) {
  const auto bytes = static_cast<int64_t>(file.map.bytes().size());
  const std::string path = file.path.string();
  if (bytes == 0) throw Error(ErrorKind::kFormat, cat(path, ": the file is empty"));
  if (bytes % token_bytes(file.type) != 0) {
    throw Error(ErrorKind::kFormat,
                cat(path, ": ", bytes, " bytes are not a whole number of tokens of ",
                    token_bytes(file.type), " bytes"),
                "the file may be cut off; for data.kind = \"tokens\", also check data.token_dtype");
  }
  file.size = bytes / token_bytes(file.type);
  refuse_known_format(file.path, file.map.bytes(), "headerless integers", /*least=*/4);
}

}  // namespace

TokenFile open_shard_or_headerless(const std::filesystem::path& path, TokenType type) {
  TokenFile file{path, MappedFile(path), type};
  if (read_shard_header(file)) return file;
  measure_headerless(file);
  if (type == TokenType::kUint16) refuse_wider_integers(file);
  return file;
}

int64_t token_bytes(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
      return 1;
    case TokenType::kInt16:
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
    case TokenType::kUint32:
      return 4;
    case TokenType::kInt64:
      return 8;
  }
  return 1;
}

TokenType parse_token_dtype(std::string_view name) {
  if (name == "uint16") return TokenType::kUint16;
  if (name == "uint32") return TokenType::kUint32;
  throw Error(ErrorKind::kPlan, cat("data.token_dtype = \"", name, "\" is not known"),
              "use uint16 or uint32");
}

TokenFile open_token_file(const std::filesystem::path& path, TokenType type) {
  TokenFile file{path, MappedFile(path), type};
  measure_headerless(file);
  return file;
}

MappedTokens::MappedTokens(std::string kind, std::vector<TokenFile> files, int64_t vocab_size,
                           std::string description)
    : kind_(std::move(kind)),
      description_(std::move(description)),
      files_(std::move(files)),
      vocab_size_(vocab_size) {
  for (const TokenFile& file : files_) {
    starts_.push_back(size_);
    size_ += file.size;
  }
}

void MappedTokens::read(int64_t first, std::span<int64_t> out) const {
  AM_ASSERT(first >= 0 && first + static_cast<int64_t>(out.size()) <= size_, "outside the tokens");
  auto at = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) -
                                starts_.begin() - 1);
  while (!out.empty()) {
    const TokenFile& file = files_[at];
    const int64_t within = first - starts_[at];
    const size_t count = std::min(out.size(), static_cast<size_t>(file.size - within));
    read_tokens(file, within, out.first(count));
    require_whole(file.path, file.map.bytes());
    check_ids(file, within, out.first(count), vocab_size_);
    out = out.subspan(count);
    first += static_cast<int64_t>(count);
    ++at;
  }
}

std::string MappedTokens::description() const {
  if (!description_.empty()) return description_;
  return cat(kind_, ": ", files_text(files_.front().path, files_.size()), ", ", format_count(size_),
             " tokens");
}

}  // namespace am::data
