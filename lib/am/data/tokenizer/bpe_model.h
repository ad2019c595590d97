// Byte-pair encoding: a piece begins as one symbol for each character, or byte, and neighbours are
// merged in the order of the rules.
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
  bool whole_pieces = false;  // whether a piece that is in the vocabulary becomes one token
  bool fuse_unknown = false;  // whether neighbouring unknown characters become one token
  UnknownText unknown;
  bool unknown_is_fatal = false;  // false: unknown characters without an id are left out
  std::string subword_prefix;     // prefix, in the vocabulary, of all symbols but a piece's first
  std::string word_suffix;        // suffix, in the vocabulary, of a piece's last symbol
  // Symbols that are cut out first and never merged; may be null.
  std::shared_ptr<const Trie> fixed;
  // Characters that occur in tokens but are not tokens themselves. They have ids beyond those of
  // the vocabulary, by which merges refer to them.
  Vocabulary parts;
  // Whether tokens contain U+2581 only at their beginning, so that no rule merges across the start
  // of a word. A text is then cut before each run of U+2581: faster, with the same result.
  bool words_begin_with_space = false;
};

std::unique_ptr<const TokenModel> bpe_model(BpeSpec spec);

// Sets `merges`, `parts` and `words_begin_with_space` for a vocabulary without merge rules: two
// neighbours may merge if the result is in the vocabulary; results of lower rank come first, equal
// ranks from left to right. `ranks`: the tokens that a merge may produce, with their ranks;
// `next_part`: the first id above those of all tokens. Throws Error(kFormat) for a token of more
// than 4096 bytes.
void merge_by_rank(BpeSpec& spec, const std::vector<std::pair<std::string, uint32_t>>& ranks,
                   uint32_t next_part);
// Whether a token contains U+2581 behind another character.
bool has_inner_space(std::string_view token);

}  // namespace am::data
