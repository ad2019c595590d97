// Finds the added tokens of a tokenizer, for example "<|endoftext|>", in text.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "am/data/tokenizer/trie.h"

namespace am::data {

// The occurrences of `content` become this token's id; only the text between them is split by the
// pre-tokenizer.
struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool special = false;     // a control token, for split_special_tokens and skip_special_tokens
  bool normalized = false;  // whether the text is normalized before the token is searched
  bool strip_left = false;  // whether white space before the token is removed
  bool strip_right = false;
  bool single_word = false;  // whether word characters beside the token prevent a match
};

// Returns whether the special token at bytes [begin, end) of the text is treated as ordinary text.
using IsText = std::function<bool(size_t begin, size_t end)>;

class AddedTokens {
 public:
  // Adds a token, which is matched wherever the text `pattern` occurs. `pattern` must not be empty.
  void add(const AddedToken& token, std::string_view pattern);

  // Cuts a text at the added tokens that occur in it. If several begin at the same byte, uses the
  // longest one. In order, calls `rest(begin, end)` for each nonempty stretch between tokens, and
  // `token(id, begin, end)` for each token together with the white space that it removes. `is_text`
  // may be empty: then no special token is ordinary text.
  template <typename Rest, typename Token>
  void cut(std::string_view text, const IsText& is_text, Rest&& rest, Token&& token) const {
    size_t at = 0;
    for (size_t from = 0; from < text.size();) {
      const Found found = find(text, from, at, is_text);
      if (found.token == nullptr) break;
      if (found.begin > at) rest(at, found.begin);
      token(found.token->id, found.begin, found.end);
      at = found.end;
      from = found.match_end;
    }
    if (at < text.size()) rest(at, text.size());
  }

 private:
  struct Found {
    const AddedToken* token = nullptr;
    size_t begin = 0;  // with the white space that strip_left removes
    size_t end = 0;
    size_t match_end = 0;
  };
  // Finds the first token at or after byte `from`. White space before byte `free` belongs to the
  // previous token, so strip_left does not remove it.
  Found find(std::string_view text, size_t from, size_t free, const IsText& is_text) const;

  std::vector<AddedToken> tokens_;
  Trie trie_;  // indices in tokens_
  std::array<bool, 256> begins_ = {};
};

}  // namespace am::data
