// Supports data.split_special_tokens for conversations. Before a chat template renders the
// messages, a guard character is inserted into each special token that the messages contain. In the
// rendered text, a special token with a guard came from a message; one without came from the
// template.
//
//   const Trie tokens = guarded_tokens({"<|im_end|>"});
//   const TextGuard guard(tokens, dump_json(request.messages, -1));
//   guard.guard(request.messages);                     // a guard character in each "<|im_end|>"
//   std::string text = chat_template.render(request).text;
//   const auto inside = guard.remove(text);            // text without guards, and where they were
//   tokenizer.encode(text, {.inside_text = inside});
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/json.h"
#include "am/data/tokenizer/trie.h"

namespace am::data {

// Returns a trie of the special tokens that a guard can mark. Tokens of one character are left out,
// because a guard must lie inside the token, behind its first character.
Trie guarded_tokens(const std::vector<std::string>& special_tokens);

class TextGuard {
 public:
  // Chooses a guard that does not occur in `texts` from four candidate characters. Throws
  // Error(kFormat) if `texts` contains all four. `tokens` is the result of guarded_tokens(), and
  // must outlive the object.
  TextGuard(const Trie& tokens, std::string_view texts);

  // Inserts a guard behind the first character of each special token in all strings inside `value`.
  // The keys of objects do not change.
  void guard(Json& value) const;
  // Removes the guards from `text`. Returns, for each guard in order, the byte offset in the new
  // text of the byte that followed the guard.
  std::vector<size_t> remove(std::string& text) const;
  // Converts a byte offset in the text before remove() to the offset of the same byte after
  // remove(). An offset inside a guard becomes the offset of the byte that followed the guard.
  // `guards`: the result of remove().
  size_t without_guards(size_t offset, const std::vector<size_t>& guards) const;

 private:
  std::string guarded_text(std::string_view text) const;

  const Trie& tokens_;
  std::string guard_;
};

}  // namespace am::data
