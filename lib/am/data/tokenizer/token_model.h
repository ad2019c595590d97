// The model of a tokenizer, which turns one piece of text into tokens.
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
  // Appends the tokens of a piece, which is not empty. If `ranges` is not null, also appends the
  // bytes of the piece that each token covers. If the piece contains text without a token and the
  // vocabulary has no token for unknown text, throws Error(kFormat), or leaves the text out if the
  // model allows that (BpeSpec::unknown_is_fatal).
  virtual void append(std::string_view piece, std::vector<uint32_t>& ids,
                      std::vector<ByteRange>* ranges) const = 0;
};

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};
// Ids by token.
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

// The ids with which a model writes text that its vocabulary lacks.
struct UnknownText {
  std::optional<uint32_t> id;                    // id of the token for unknown text
  std::vector<std::optional<uint32_t>> of_byte;  // id per byte; empty: no byte fallback

  // Whether each byte of the text has an id.
  bool has_bytes(std::string_view text) const;
  // Returns `id`. Throws Error(kFormat) if there is none.
  uint32_t required_id(std::string_view text) const;
};
// Returns the id of each byte's token, such as <0x0A>, in a vocabulary.
std::vector<std::optional<uint32_t>> byte_ids(const Vocabulary& vocabulary);

}  // namespace am::data
