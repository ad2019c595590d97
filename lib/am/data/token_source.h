// One sequence of tokens from data of any kind. samples.h divides the sequence into samples.
//
//   data::DataSpec spec{.kind = "text", .paths = {"/usr/share/common-licenses"},
//                       .vocab_size = 256};
//   auto source = data::open_token_source(spec);
//   std::vector<int64_t> tokens(128);
//   source->read(1000, tokens);            // tokens [1000, 1128)
//
// Kinds:
//   synthetic  2^40 tokens in arithmetic progressions, which a model can learn
//   text       text files, tokenised when they are opened; in memory, 2 or 4 bytes per token. A
//              document is the "text" of an object (JSON Lines, JSON array) or of a row (Parquet),
//              in other formats the whole file. If eod_token is set, it follows each document.
//              Tokens that `am-run prepare` wrote (prepared.h) are memory-mapped instead
//   tokens     headerless little-endian integers, or shards of llm.c, modded-nanogpt and NeMo
//              AutoModel's NanogptDataset; memory-mapped
//   megatron   a .bin/.idx pair (either name, or the common prefix); memory-mapped
// The tokens of several paths are concatenated in the given order. Only the eod_token of the kind
// "text" separates documents. A path may be a file, a folder (all its files, sorted), or a glob:
// see data/paths.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace am::data {

// Tokens of a conversation that the loss counts.
enum class LossOn {
  kAssistant,  // all that the assistant generates
  kLast,       // the last message of the assistant, or the completion
  kAll,        // every token
};

struct DataSpec {
  std::string kind = "synthetic";
  // Files, folders or globs, resolved against the plan's folder.
  std::vector<std::filesystem::path> paths;
  std::string tokenizer = "bytes";     // "bytes", or a path resolved against the plan's folder
  std::string token_dtype = "uint16";  // integers of kind "tokens": uint16 | uint32
  int64_t vocab_size = 0;              // the model's vocabulary size; every id must be below it
  int64_t seed = 0;                    // seed of synthetic tokens
  // Id of the token at the end of each document (kind "text"), and at the end of completions if
  // there is no chat template (kind "chat").
  std::optional<int64_t> eod_token;
  // The kind "chat" uses the members from loss_on to columns; the kind "synthetic_chat" uses
  // max_length, drops_long and packs. See conversation.h and examples.h.
  LossOn loss_on = LossOn::kAssistant;
  int64_t max_length = 0;
  bool drops_long = false;
  bool packs = true;
  std::vector<std::pair<std::string, std::string>> columns = {};
  bool splits_special = false;  // whether special tokens in the data are tokenised as ordinary text
  // Folder of tokens that am-run prepare wrote (prepared.h); empty: none.
  std::filesystem::path prepared = {};
  int threads = 1;                                   // number of threads that tokenise
  std::function<void(const std::string&)> log = {};  // receives progress lines; may be empty
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // Returns the number of tokens.
  virtual int64_t size() const = 0;
  // Fills `out` with the tokens at [first, first + out.size()), which must lie within size().
  // Throws Error(kFormat) naming file, position and id if an id is not below vocab_size, Error(kIo)
  // if the file became shorter.
  virtual void read(int64_t first, std::span<int64_t> out) const = 0;
  // Returns a description for the log, for example "text: corpus.txt and 16 more, 1 234 567 tokens
  // (bytes)".
  virtual std::string description() const = 0;
};

// Opens the data that `spec` describes. Throws Error(kIo) if a file is missing or cannot be read.
// Throws Error(kFormat) if a file is empty or damaged, if the kind does not support the file's
// format (for example an archive or a NumPy array), if the file's size is not a whole number of
// tokens, or if the file's integers are evidently wider than token_dtype. Throws Error(kPlan) for
// an unknown kind or dtype, if `spec` lacks paths that the kind requires, or if tokenised text
// contains ids beyond the model's vocabulary.
std::unique_ptr<TokenSource> open_token_source(const DataSpec& spec);

}  // namespace am::data
