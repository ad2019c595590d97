// Byte-pair encoding (BPE). A piece of text starts as one symbol per character or per byte. Then
// neighbouring symbols are merged, in the order of the rules' ranks.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "am/data/tokenizer/bpe_merges.h"
#include "am/data/tokenizer/token_model.h"
#include "am/data/tokenizer/trie.h"

namespace am::data {

struct BpeSpec {
  Vocabulary vocabulary;
  BpeMerges merges;
  bool bytes = false;         // symbols are bytes, not characters; tokens are byte strings
  bool whole_pieces = false;  // whether a piece in the vocabulary becomes one token without merging
  bool fuse_unknown = false;  // whether neighbouring unknown characters become one token
  UnknownText unknown;
  bool unknown_is_fatal = false;  // whether unknown text without an id is an error or is left out
  std::string subword_prefix;     // prefix, in the vocabulary, of all symbols but a piece's first
  std::string word_suffix;        // suffix, in the vocabulary, of a piece's last symbol
  // Texts that are cut out of a piece before merging, and never merge. The values are ids. May be
  // null.
  std::shared_ptr<const Trie> fixed;
  // Characters that occur in tokens but are not tokens themselves. The rules in `merges` refer to
  // these characters by ids above those of the vocabulary.
  Vocabulary parts;
  // Whether tokens contain U+2581 only at their beginning. Then no rule merges across the start of
  // a word, and a piece is cut before each run of U+2581, which is faster and has the same result.
  bool words_begin_with_space = false;
};

std::unique_ptr<const TokenModel> bpe_model(BpeSpec spec);

// Sets `merges`, `parts` and `words_begin_with_space` of `spec`, for a vocabulary without merge
// rules. Two neighbouring symbols may merge if the result is in `ranks`. Merges whose result has a
// lower rank come first; merges of equal rank run from left to right. `ranks`: the tokens of the
// vocabulary that a merge may produce, with their ranks. `next_part`: an id above all ids of the
// vocabulary, for the first of `parts`. Throws Error(kFormat) for a token of more than 4096 bytes.
void merge_by_rank(BpeSpec& spec, const std::vector<std::pair<std::string, uint32_t>>& ranks,
                   uint32_t next_part);
// Whether a token contains U+2581 behind another character.
bool has_inner_space(std::string_view token);

}  // namespace am::data
