#include "am/data/tokenizer/added_tokens.h"

#include <algorithm>

#include "am/data/tokenizer/unicode.h"

namespace am::data {
namespace {

// word_begins() returns whether the text begins with a word character; word_ends(), whether the
// text ends with a word character.
bool word_begins(std::string_view text) {
  size_t at = 0;
  return !text.empty() && is_word(next_character(text, at));
}

bool word_ends(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && (static_cast<unsigned char>(text[begin - 1]) & 0xC0) == 0x80) --begin;
  return begin > 0 && word_begins(text.substr(begin - 1));
}

}  // namespace

void AddedTokens::add(const AddedToken& token, std::string_view pattern) {
  trie_.add(pattern, static_cast<uint32_t>(tokens_.size()));
  tokens_.push_back(token);
  begins_[static_cast<unsigned char>(pattern.front())] = true;
}

AddedTokens::Found AddedTokens::find(std::string_view text, size_t from, size_t free,
                                     const IsText& is_text) const {
  if (trie_.empty()) return {};
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    const Trie::Match match = trie_.longest(text.substr(at));
    if (match.length == 0) continue;
    const AddedToken& token = tokens_[match.value];
    Found found{&token, at, at + match.length, at + match.length};
    const bool in_word = word_ends(text.substr(0, at)) || word_begins(text.substr(found.end));
    const bool split = token.special && is_text && is_text(at, found.end);
    if (split || (token.single_word && in_word)) {
      at = found.end - 1;
      continue;
    }
    if (token.strip_left) {
      found.begin = std::max(free, at - trailing_space(text.substr(0, at)));
    }
    if (token.strip_right) found.end += leading_space(text.substr(found.end));
    return found;
  }
  return {};
}

}  // namespace am::data
