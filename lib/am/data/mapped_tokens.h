// Memory-mapped token files: little-endian integers of a fixed size.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/base/file.h"
#include "am/data/token_source.h"

namespace am::data {

enum class TokenType { kUint8, kInt16, kUint16, kInt32, kUint32, kInt64 };

// Returns the number of bytes of a token.
int64_t token_bytes(TokenType type);
// Parses "uint16" or "uint32"; throws Error(kPlan) for other names.
TokenType parse_token_dtype(std::string_view name);

// A memory-mapped file of tokens. Its first `size` tokens are used.
struct TokenFile {
  std::filesystem::path path;
  MappedFile map;
  TokenType type = TokenType::kUint16;
  int64_t size = 0;  // number of tokens
};

// Opens a headerless file. Throws Error(kIo) if it cannot be read, Error(kFormat) if it is empty or
// its size is not a multiple of the token size.
TokenFile open_token_file(const std::filesystem::path& path, TokenType type);

// Opens Megatron's pair of files: `path` is PREFIX.bin, PREFIX.idx or PREFIX. The index contains
// the token type and the sequences, which must be contiguous, as Megatron writes them; sequence
// borders are ignored.
TokenFile open_megatron_file(const std::filesystem::path& path);

// A TokenSource that concatenates the tokens of several files.
class MappedTokens : public TokenSource {
 public:
  MappedTokens(std::string kind, std::vector<TokenFile> files, int64_t vocab_size);

  int64_t size() const override { return size_; }
  void read(int64_t first, std::span<int64_t> out) const override;
  std::string description() const override;

 private:
  std::string kind_;
  std::vector<TokenFile> files_;
  std::vector<int64_t> starts_;  // position of each file's first token in the concatenation
  int64_t vocab_size_;
  int64_t size_ = 0;
};

}  // namespace am::data
