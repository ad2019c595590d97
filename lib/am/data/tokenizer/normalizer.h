// The stages that change text before it is cut into pieces.
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

// Pattern that a stage searches: a regular expression, or a text that is not empty.
using Pattern = std::variant<Regex, std::string>;
// Calls `found(begin, end)` for each match of the pattern, in order.
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

// Puts `prefix` before text that is not empty.
NormalizerStage prepend_stage(std::string prefix);
// Replaces each match by `content`.
NormalizerStage replace_stage(Pattern pattern, std::string content);
NormalizerStage normal_form_stage(NormalForm form);
NormalizerStage lower_case_stage();
// Removes white space at the beginning or the end.
NormalizerStage strip_stage(bool left, bool right);
// Removes combining marks. Precomposed letters keep their accents.
NormalizerStage strip_accents_stage();
// Removes control characters, and turns unusual white space into spaces, as SentencePiece's rule
// "nmt" does.
NormalizerStage nmt_stage();
// Applies a character map to grapheme clusters, as `tokenizers` does.
NormalizerStage charsmap_stage(Charsmap map);
// Turns each byte into the letter that represents it in GPT-2's vocabulary.
NormalizerStage letters_stage();

struct BertCleaning {
  bool clean_text = true;            // control characters are removed; white space becomes spaces
  bool handle_chinese_chars = true;  // spaces are put around each Chinese character
  bool strip_accents = true;
  bool lowercase = true;
};
NormalizerStage bert_stage(const BertCleaning& options);

// Options of SentencePiece's own normalizer, as a .model file has them.
struct SentencePieceSpaces {
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;  // a space becomes U+2581
  bool treat_whitespace_as_suffix = false;
};
// Normalizes as SentencePiece does. `map` may be null. Text that is a key of `fixed` is not mapped.
NormalizerStage sentencepiece_stage(std::shared_ptr<const Charsmap> map,
                                    std::shared_ptr<const Trie> fixed, SentencePieceSpaces spaces);

// Returns the letter by which GPT-2's vocabulary represents each byte: a printable byte represents
// itself, and the other bytes are U+0100, U+0101, ... in order.
const std::vector<std::string>& letters_of_bytes();
// Sets `bytes` to the bytes that the letters represent. Returns false if a character is not one of
// letters_of_bytes().
bool bytes_of_letters(std::string_view letters, std::string& bytes);

}  // namespace am::data
