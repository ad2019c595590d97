// Decodes a growing list of token ids piece by piece, for text that is shown while it is generated.
//
//   TextStream stream(tokenizer);
//   std::cout << stream.add(id);       // for each id; may be empty while a character is incomplete
//   std::cout << stream.finish();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/data/tokenizer.h"

namespace am::data {

class TextStream {
 public:
  // `tokenizer` must outlive the object.
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Appends an id. Returns the new text that no further id can change. Holds back trailing blanks,
  // which some tokenizers strip at the end of a text, and an incomplete character.
  std::string add(int64_t id);
  // Returns the text that add() has held back. All returned pieces together equal decode() of all
  // ids, unless invalid UTF-8 makes a later id change text that was already returned.
  std::string finish();

 private:
  // Returns the part of `text` from byte shown_ to byte `size`. `text`: the result of decode().
  std::string shown_up_to(const std::string& text, size_t size);

  const Tokenizer& tokenizer_;
  std::vector<int64_t> ids_;
  size_t shown_ = 0;  // bytes of the text that were returned
};

}  // namespace am::data
