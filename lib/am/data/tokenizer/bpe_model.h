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
  bool bytes = false;         // symbols are bytes, and the vocabulary's tokens are bytes
  bool whole_pieces = false;  // a piece that is in the vocabulary becomes one token
  bool fuse_unknown = false;  // neighbouring unknown characters become one token
  UnknownText unknown;
  bool unknown_is_fatal = false;  // false: unknown characters without an id are left out
  std::string subword_prefix;     // of each symbol but a piece's first
  std::string word_suffix;        // of a piece's last symbol
  // Symbols that are cut out first and never merged; may be null.
  std::shared_ptr<const Trie> fixed;
  // Characters that occur in tokens but are not tokens themselves. They have ids beyond those of
  // the vocabulary, by which merges refer to them.
  Vocabulary parts;
  // No rule merges a token with a U+2581 behind it, unless the token ends with U+2581. A text is
  // therefore cut before such a U+2581, which is faster and does not change the result.
  bool words_begin_with_space = false;
};

std::unique_ptr<const TokenModel> bpe_model(BpeSpec spec);

// Sets `merges`, `parts` and `words_begin_with_space` of vocabularies without rules: two
// neighbours may merge if the result is in the vocabulary; the token with the lowest rank is made
// first, and equal ranks from left to right. `ranks` are those of the tokens that merging may make;
// `next_part` is the first id that no token has. Throws Error(kFormat) for a token of more than
// 4096 bytes.
void merge_by_rank(BpeSpec& spec, const std::vector<std::pair<std::string, uint32_t>>& ranks,
                   uint32_t next_part);
// Whether a token contains U+2581 behind another character.
bool has_inner_space(std::string_view token);

}  // namespace am::data
