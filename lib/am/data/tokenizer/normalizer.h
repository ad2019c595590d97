// The stages of a tokenizer (pipeline.h) that change text before the pre-tokenizers cut it into
// pieces.
//
//   TracedText text = trace("e\u0301", false);
//   normal_form_stage(NormalForm::kC)->apply(text);    // "é"
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "am/data/tokenizer/charsmap.h"
#include "am/data/tokenizer/regex.h"
#include "am/data/tokenizer/traced_text.h"
#include "am/data/tokenizer/trie.h"

namespace am::data {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(TracedText& text) const = 0;
};
using NormalizerStage = std::unique_ptr<const Normalizer>;

// Pattern that a stage searches for: a regular expression, or a literal text that is not empty.
using Pattern = std::variant<Regex, std::string>;
// Calls `found(begin, end)` for each match of the pattern in `text`, in order. A match covers the
// bytes [begin, end).
template <typename Found>
void for_each_match(const Pattern& pattern, std::string_view text, Found&& found) {
  if (const auto* regex = std::get_if<Regex>(&pattern)) {
    Regex::Matches matches(*regex, text);
    for (size_t begin = 0, end = 0; matches.next(begin, end);) found(begin, end);
    return;
  }
  const std::string& literal = std::get<std::string>(pattern);
  for (size_t at = text.find(literal); at != text.npos; at = text.find(literal, at)) {
    found(at, at + literal.size());
    at += literal.size();
  }
}

// Puts `prefix` before a text, unless the text is empty.
NormalizerStage prepend_stage(std::string prefix);
// Replaces each match of `pattern` by `content`.
NormalizerStage replace_stage(Pattern pattern, std::string content);
NormalizerStage normal_form_stage(NormalForm form);
NormalizerStage lower_case_stage();
// Removes white space: if `left`, at the beginning; if `right`, at the end.
NormalizerStage strip_stage(bool left, bool right);
// Removes combining marks. Precomposed letters, such as U+00E9, keep their accents.
NormalizerStage strip_accents_stage();
// Removes control characters, and turns unusual white space into spaces, as SentencePiece's rule
// "nmt" does.
NormalizerStage nmt_stage();
// Applies a character map to each grapheme cluster, as the library `tokenizers` does.
NormalizerStage charsmap_stage(Charsmap map);
// Turns each byte into its letter in GPT-2's vocabulary; see letters_of_bytes().
NormalizerStage letters_stage();

struct BertCleaning {
  bool clean_text = true;            // control characters are removed; white space becomes spaces
  bool handle_chinese_chars = true;  // spaces are put around each Chinese character
  bool strip_accents = true;
  bool lowercase = true;
};
// Applies the selected steps of BERT's text cleaning, in the order of BertCleaning's members.
NormalizerStage bert_stage(const BertCleaning& options);

// Options of SentencePiece's own normalizer, as stored in a .model file.
struct SentencePieceSpaces {
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;  // a space becomes U+2581
  bool treat_whitespace_as_suffix = false;
};
// Normalizes a text as SentencePiece does. `map` is the model's character map, or null. Text that
// is a key of `fixed` is not changed by `map`.
NormalizerStage sentencepiece_stage(std::shared_ptr<const Charsmap> map,
                                    std::shared_ptr<const Trie> fixed, SentencePieceSpaces spaces);

// Returns 256 letters: GPT-2's vocabulary writes byte b as letter b. The letter of a visible
// Latin-1 character is the character itself. The letters of the other bytes, the space included,
// are U+0100, U+0101, ... in order.
const std::vector<std::string>& letters_of_bytes();
// Sets `bytes` to the bytes that the letters represent. Returns false if a character is not one of
// letters_of_bytes().
bool bytes_of_letters(std::string_view letters, std::string& bytes);

}  // namespace am::data
