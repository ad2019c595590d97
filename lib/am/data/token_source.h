// One long row of tokens, whatever it comes from: what samples are cut from.
//
//   data::DataSpec spec{.kind = "text", .paths = {"/usr/share/common-licenses"}, .vocab_size =
//   256}; auto source = data::open_token_source(spec); std::vector<int64_t> tokens(128);
//   source->read(1000, tokens);            // tokens [1000, 1128)
//
// Kinds:
//   synthetic  endless arithmetic progressions, see data/synthetic.h
//   text       files through the tokenizer, in memory as 2 or 4 bytes a token; a file is a
//   document,
//              and so is the "text" of each line of a .jsonl; eod_token ends each
//   tokens     headerless little-endian integers, mapped
//   megatron   a .bin/.idx pair (either name, or the common prefix), mapped
// Several paths stand one after the other in the order given, without separators but for text's. A
// path may be a file, a folder (all its files, sorted), or a glob: see data/paths.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace am::data {

struct DataSpec {
  std::string kind = "synthetic";
  std::vector<std::filesystem::path> paths;  // resolved against the plan's folder
  std::string tokenizer = "bytes";           // resolved, but for "bytes"
  std::string token_dtype = "uint16";        // kind tokens: uint16 | uint32
  int64_t vocab_size = 0;                    // of the model: every id is below it
  int64_t seed = 0;                          // of the synthetic tokens
  std::optional<int64_t> eod_token;          // kind text: ends each document
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // Number of tokens.
  virtual int64_t size() const = 0;
  // Fills `out` with the tokens at [first, first + out.size()), which must lie within size().
  // Throws Error(kFormat) that names file, position and id when an id is not below vocab_size.
  virtual void read(int64_t first, std::span<int64_t> out) const = 0;
  // For the log: "text: 17 files, 1 234 567 tokens".
  virtual std::string description() const = 0;
};

// Throws Error(kIo) for a file that is missing or cannot be read, Error(kFormat) for one that is
// empty, of another format (compressed, a table, NumPy's), whose size is no whole number of tokens,
// or whose integers are plainly wider than token_dtype, Error(kPlan) for an unknown kind or dtype
// or a tokenizer larger than the model's vocabulary where the text has such ids.
std::unique_ptr<TokenSource> open_token_source(const DataSpec& spec);

}  // namespace am::data
