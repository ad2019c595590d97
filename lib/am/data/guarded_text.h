// Marks the special tokens that occur in the content of messages, so that they can be told from
// those of the chat template in the rendered text (data.split_special_tokens).
//
//   TextGuard guard({"<|im_end|>"}, messages);
//   request.messages = guard.guarded(messages);        // a guard character in each "<|im_end|>"
//   std::string text = chat_template.render(request).text;
//   const auto inside = guard.remove(text);            // text without guards, and where they were
//   tokenizer.encode(text, {.inside_text = inside});
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/json.h"

namespace am::data {

class TextGuard {
 public:
  // Chooses a guard character that does not occur in `texts`. Special tokens of one character are
  // ignored: no guard fits into them.
  TextGuard(std::vector<std::string> special_tokens, const Json& texts);

  // Returns a value in which each special token in a text has a guard behind its first character.
  // Keys of objects stay as they are.
  Json guarded(const Json& value) const;
  // Removes the guards from a text. Returns the ascending offsets, in the new text, of the bytes
  // that followed them.
  std::vector<size_t> remove(std::string& text) const;
  // Converts an offset in the text before remove() to one in the text after it. `guards`: the
  // result of remove().
  size_t without_guards(size_t offset, const std::vector<size_t>& guards) const;

 private:
  std::string guarded_text(std::string_view text) const;

  std::vector<std::string> special_tokens_;
  std::string guard_;
};

}  // namespace am::data
