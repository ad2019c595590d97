// Marks the special tokens that occur in the content of messages with a guard character. In the
// rendered text, the guard distinguishes them from special tokens that the chat template adds
// (data.split_special_tokens).
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

// Returns the special tokens that a guard can mark. Tokens of one character are left out, because
// the guard is put behind the first character.
Trie guarded_tokens(const std::vector<std::string>& special_tokens);

class TextGuard {
 public:
  // Chooses one of four guard characters that does not occur in `texts`; throws Error(kFormat) if
  // all occur. `tokens` is the result of guarded_tokens(), and must outlive the object.
  TextGuard(const Trie& tokens, std::string_view texts);

  // Puts a guard behind the first character of each special token in the strings of a value. Keys
  // of objects stay as they are.
  void guard(Json& value) const;
  // Removes the guards from a text. Returns the ascending offsets, in the new text, of the bytes
  // that followed them.
  std::vector<size_t> remove(std::string& text) const;
  // Converts an offset in the text before remove() to one in the text after it. An offset within a
  // guard becomes that of the byte that followed the guard. `guards`: the result of remove().
  size_t without_guards(size_t offset, const std::vector<size_t>& guards) const;

 private:
  std::string guarded_text(std::string_view text) const;

  const Trie& tokens_;
  std::string guard_;
};

}  // namespace am::data
