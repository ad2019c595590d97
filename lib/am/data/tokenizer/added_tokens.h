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

// A token that is found in the text before the pre-tokenizer runs. Each occurrence of `content`
// becomes the id `id`; the pre-tokenizer splits only the text between the added tokens.
struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool special = false;     // a control token; see split_special_tokens and skip_special_tokens
  bool normalized = false;  // whether the text is normalized before the token is searched
  bool strip_left = false;  // whether white space before the token is removed
  bool strip_right = false;
  bool single_word = false;  // whether word characters beside the token prevent a match
};

// Returns whether the special token at bytes [begin, end) of the text is treated as ordinary text.
using IsText = std::function<bool(size_t begin, size_t end)>;

class AddedTokens {
 public:
  // Adds a token. Each occurrence of `pattern` in a text is a match. `pattern` must not be empty.
  void add(const AddedToken& token, std::string_view pattern);

  // Cuts a text at the added tokens that the text contains. If several added tokens match at the
  // same byte, the longest match counts. In order, calls `rest(begin, end)` for each nonempty part
  // of the text outside the added tokens, and `token(id, begin, end)` for each added token. The
  // range of an added token includes the white space that strip_left and strip_right remove. If
  // `is_text` is empty, no special token is ordinary text.
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
    size_t begin = 0;  // begin of the token, including the white space that strip_left removes
    size_t end = 0;
    size_t match_end = 0;  // end of the token, without the white space that strip_right removes
  };
  // Finds the first added token at or after byte `from`. Bytes before `free` belong to the previous
  // added token, so strip_left does not remove white space before `free`.
  Found find(std::string_view text, size_t from, size_t free, const IsText& is_text) const;

  std::vector<AddedToken> tokens_;
  Trie trie_;                          // from patterns to indices in tokens_
  std::array<bool, 256> begins_ = {};  // whether a pattern begins with this byte
};

}  // namespace am::data
