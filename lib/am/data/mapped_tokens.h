// Token files read in place: fixed-size little-endian integers behind a memory map.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/base/file.h"
#include "am/data/token_source.h"

namespace am::data {

enum class TokenType { kUint8, kInt16, kUint16, kInt32, kUint32, kInt64 };

int64_t token_bytes(TokenType type);
// "uint16" or "uint32"; others throw Error(kPlan).
TokenType parse_token_dtype(std::string_view name);

// One file, or the part of it that holds tokens.
struct TokenFile {
  std::filesystem::path path;
  MappedFile map;
  TokenType type = TokenType::kUint16;
  int64_t size = 0;  // tokens
};

// A headerless file. Throws Error(kIo) when it cannot be read, Error(kFormat) when it is empty or
// its size is no multiple of a token's.
TokenFile open_token_file(const std::filesystem::path& path, TokenType type);

// Megatron's pair: `path` is PREFIX.bin, PREFIX.idx or PREFIX. The index gives the token type and
// the sequences, which must lie one after the other, as Megatron writes them; their borders are
// ignored.
TokenFile open_megatron_file(const std::filesystem::path& path);

// Files one after the other.
class MappedTokens : public TokenSource {
 public:
  MappedTokens(std::string kind, std::vector<TokenFile> files, int64_t vocab_size);

  int64_t size() const override { return size_; }
  void read(int64_t first, std::span<int64_t> out) const override;
  std::string description() const override;

 private:
  std::string kind_;
  std::vector<TokenFile> files_;
  std::vector<int64_t> starts_;  // of each file, in tokens
  int64_t vocab_size_;
  int64_t size_ = 0;
};

}  // namespace am::data
