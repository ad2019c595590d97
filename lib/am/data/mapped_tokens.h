// Memory-mapped token files: little-endian integers of a fixed size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
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

// A memory-mapped file of tokens. Readers use its first `size` tokens.
struct TokenFile {
  std::filesystem::path path;
  MappedFile map;
  TokenType type = TokenType::kUint16;
  int64_t size = 0;   // number of tokens
  int64_t begin = 0;  // number of bytes before the first token
};

// Opens a headerless file. Throws Error(kIo) if the file cannot be read. Throws Error(kFormat) if
// the file is empty, if its size is not a multiple of the token size, or if its first bytes are the
// signature of another format.
TokenFile open_token_file(const std::filesystem::path& path, TokenType type);

// Opens a file of the kind "tokens": a headerless file of `type`, or a shard of llm.c,
// modded-nanogpt or NeMo AutoModel's NanogptDataset. The header of a shard (1,024 bytes) determines
// its token type. Throws the errors of open_token_file(). Also throws Error(kFormat) if a shard is
// truncated, or if `type` is uint16 and the integers of a headerless file are evidently wider.
TokenFile open_shard_or_headerless(const std::filesystem::path& path, TokenType type);

// Opens Megatron's pair of files: `path` is PREFIX.bin, PREFIX.idx or PREFIX. The index file
// determines the token type. The returned tokens do not show where sequences begin. Throws
// Error(kIo) if a file cannot be read. Throws Error(kFormat) if a file is damaged, or if the
// sequences are not contiguous (Megatron writes contiguous sequences).
TokenFile open_megatron_file(const std::filesystem::path& path);

// Returns the number of tokens of each sequence in Megatron's index file. Throws Error(kFormat) if
// the file is not an index of version 1 or is truncated.
std::vector<int32_t> megatron_lengths(const std::filesystem::path& index_path);

// Writes Megatron's pair of files.
//
//   MegatronWriter writer("folder/tokens", TokenType::kUint16);
//   writer.add(ids, lengths);      // sequences, one after the other
//   writer.finish();
class MegatronWriter {
 public:
  MegatronWriter(const std::filesystem::path& prefix, TokenType type);

  // Appends sequences. `ids` holds the tokens of all sequences, one after the other. `lengths`
  // holds the number of tokens of each sequence; the sum of `lengths` must be ids.size().
  void add(std::span<const uint32_t> ids, std::span<const int32_t> lengths);
  // Writes the index, and syncs both files.
  void finish();

 private:
  std::filesystem::path index_path_;
  TokenType type_;
  FileWriter tokens_;
  std::vector<int32_t> lengths_;
};

// A TokenSource that concatenates the tokens of several files.
class MappedTokens : public TokenSource {
 public:
  // `description`: the result of description(). If empty, description() names the first file and
  // the numbers of other files and of tokens.
  MappedTokens(std::string kind, std::vector<TokenFile> files, int64_t vocab_size,
               std::string description = {});

  int64_t size() const override { return size_; }
  void read(int64_t first, std::span<int64_t> out) const override;
  std::string description() const override;

 private:
  std::string kind_;
  std::string description_;
  std::vector<TokenFile> files_;
  std::vector<int64_t> starts_;  // position of each file's first token in the concatenation
  int64_t vocab_size_;
  int64_t size_ = 0;
};

}  // namespace am::data
