// The stage of a tokenizer (pipeline.h) that converts one piece of text to tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "am/data/tokenizer/traced_text.h"

namespace am::data {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the ids of the tokens of `piece`, which is not empty. If `ranges` is not null, also
  // appends one range per token: the bytes of the piece that the token covers. Throws
  // Error(kFormat) if the vocabulary has no token for some text of the piece, and none for unknown
  // text. A BPE whose BpeSpec::unknown_is_fatal is false leaves this text out instead.
  virtual void append(std::string_view piece, std::vector<uint32_t>& ids,
                      std::vector<ByteRange>* ranges) const = 0;
};

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};
// Maps each token to its id.
using Vocabulary = std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>>;

inline std::optional<uint32_t> find_id(const Vocabulary& vocabulary, std::string_view token) {
  const auto found = vocabulary.find(token);
  return found == vocabulary.end() ? std::nullopt : std::optional(found->second);
}

// Returns the name of a byte in vocabularies with byte fallback: "<0x0A>".
std::string byte_token(unsigned char byte);
// Inverse of byte_token(): returns the byte that a token such as "<0x0A>" names; nullopt for any
// other token.
std::optional<char> byte_of_token(std::string_view token);

// The ids that a model writes for text without a token of its own.
struct UnknownText {
  std::optional<uint32_t> id;                    // id of the token for unknown text
  std::vector<std::optional<uint32_t>> of_byte;  // id per byte; empty: no byte fallback

  // Whether `of_byte` has an id for each byte of the text.
  bool has_bytes(std::string_view text) const;
  // Returns `id`. If `id` is nullopt, throws Error(kFormat) with `text` in the message.
  uint32_t required_id(std::string_view text) const;
};
// Returns 256 ids, one per byte: the id of the byte's token, for example <0x0A>, in the vocabulary;
// nullopt if the vocabulary lacks this token.
std::vector<std::optional<uint32_t>> byte_ids(const Vocabulary& vocabulary);

}  // namespace am::data
