// Converts text to token ids and back.
//
//   auto tokenizer = data::make_tokenizer("bytes");
//   tokenizer->encode("Hi");                                                       // {72, 105}
//   auto llama = data::make_tokenizer("models/llama");
//   llama->encode("Hi", {.add_special_tokens = true});                             // {1, 6324}
//   llama->decode(ids, /*skip_special_tokens=*/true);                              // "Hi"
//   llama->token_id("</s>");                                                       // 2
//
// The tokenizer "bytes" needs no file, and has 256 ids: each byte is one token. The code in the
// folder data/tokenizer/ reads tokenizer files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::data {

struct EncodeOptions {
  // Whether to add the tokens that the tokenizer's post-processor puts around a text, for example
  // <s> before it.
  bool add_special_tokens = false;
  // Whether special tokens that occur in the text are tokenised as ordinary text.
  bool split_special_tokens = false;
  // Ascending byte offsets in the text. If an offset lies inside a special token (begin < offset <
  // end), the special token is tokenised as ordinary text. append_tokens() may ignore these
  // offsets; places() applies them.
  std::span<const size_t> inside_text = {};
};

// A token, and the bytes [begin, end) of the text that the token covers. A token that was added by
// EncodeOptions::add_special_tokens covers no bytes: begin = end = 0.
struct TokenPlace {
  int64_t id = 0;
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TokenPlace&) const = default;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text` to `out`. Invalid UTF-8 counts as U+FFFD, except in the tokenizer
  // "bytes".
  virtual void append_tokens(std::string_view text, const EncodeOptions& options,
                             std::vector<uint32_t>& out) const = 0;
  // Returns the ids with their positions in the text. The positions are the `offsets` of the
  // library `tokenizers`, but count bytes instead of characters.
  virtual std::vector<TokenPlace> places(std::string_view text,
                                         const EncodeOptions& options) const = 0;
  // Returns the text of tokens. Skips ids outside the vocabulary.
  virtual std::string text(std::span<const int64_t> ids, bool skip_special_tokens) const = 0;
  // Returns a token as the vocabulary writes it, for example "Ġthe"; "" for an id without a token.
  virtual std::string token(int64_t id) const = 0;
  // Returns the bytes that a token contributes to a text, for example " the".
  virtual std::string token_bytes(int64_t id) const = 0;
  // Returns the id of `token`, which is written as in the vocabulary or the list of added tokens;
  // nullopt if neither contains it.
  virtual std::optional<int64_t> token_id(std::string_view token) const = 0;
  // Returns the special tokens, in the order of their ids.
  virtual std::vector<std::string> special_tokens() const = 0;
  // Returns one more than the largest id.
  virtual int64_t vocab_size() const = 0;
  // Returns "bytes" or the file's path.
  virtual std::string name() const = 0;

  std::vector<int64_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  std::vector<TokenPlace> encode_with_offsets(std::string_view text,
                                              const EncodeOptions& options = {}) const {
    return places(text, options);
  }
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens = false) const {
    return text(ids, skip_special_tokens);
  }
  // Returns the id of a token. If the tokenizer lacks the token, throws Error(kPlan) with similar
  // names.
  int64_t required_token_id(std::string_view token) const;
};

// Returns the tokenizer with this name: "bytes", the path of a tokenizer file, or the path of a
// folder that contains a tokenizer file. The content of the file, not its name, determines the
// kind:
//   tokenizer.json   of Hugging Face's `tokenizers`
//   tekken.json      of Mistral
//   tokenizer.model  of SentencePiece; or of Llama 3, in tiktoken's format (each line contains a
//                    token in base64 and its rank)
// Throws Error(kIo) if the file cannot be read. Throws Error(kFormat) with the position in the file
// if the content is of none of these kinds or is not supported.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);
// Reads a tokenizer from a file's content. `file` is its path, for messages and because a
// tokenizer_config.json beside it may be read.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view content, const std::string& file);

// Returns the path of the tokenizer file in a folder; nullopt if there is none.
std::optional<std::filesystem::path> find_tokenizer(const std::filesystem::path& folder);
// Returns the file that make_tokenizer() reads for a name: the tokenizer file in a folder, or the
// name itself if it is not a folder ("bytes" included). The result equals Tokenizer::name().
std::filesystem::path tokenizer_file(const std::string& name);

}  // namespace am::data
