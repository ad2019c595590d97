// Converts text to token ids and back.
//
//   auto tokenizer = data::make_tokenizer("bytes");
//   tokenizer->encode("Hi");                 // {72, 105}
//   data::make_tokenizer("models/llama/tokenizer.json");
//
// `bytes` has one token per byte, 256 ids, and needs no file. A Hugging Face tokenizer.json of the
// byte-level BPE kind (GPT-2, Llama 3, Qwen, SmolLM) is read by data/byte_bpe.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`. Adds no special tokens at its beginning or end.
  virtual void append_tokens(std::string_view text, std::vector<uint32_t>& out) const = 0;
  // Appends the bytes of the token `id`; appends nothing for an id without text.
  virtual void append_text(uint32_t id, std::string& out) const = 0;
  // Returns one more than the largest id that append_tokens can append.
  virtual int64_t vocab_size() const = 0;
  // Returns "bytes" or the file's path.
  virtual std::string name() const = 0;

  std::vector<int64_t> encode(std::string_view text) const;
  // Returns the text of the ids. Skips ids outside the vocabulary.
  std::string decode(std::span<const int64_t> ids) const;
};

// Returns the tokenizer with this name: "bytes", a tokenizer.json, or a folder that contains one.
// Throws Error(kIo) if the file cannot be read, Error(kFormat) if its kind of tokenizer is not
// supported.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

}  // namespace am::data
