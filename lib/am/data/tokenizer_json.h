// The fields of a Hugging Face tokenizer.json that byte-level BPE needs, as plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "am/data/regex.h"

namespace am::data {

// An added token, for example "<|endoftext|>". Its occurrences become this token's id; only the
// text between them is split by the pre-tokenizer.
struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool normalized = false;  // whether the text is normalized before the token is searched
  bool strip_left = false;  // whether white space before the token is removed
  bool strip_right = false;
};

// A step of the pre-tokenizer, which splits pieces of text at the matches of a pattern.
struct SplitStep {
  Regex pattern;
  bool keep_matches = true;
  bool keep_rest = true;  // whether the text between the matches is kept
};

struct ByteBpeSpec {
  bool normalize_nfc = false;
  bool add_prefix_space = false;  // a space is added before text that does not begin with one
  std::vector<SplitStep> splits;
  bool ignore_merges = false;  // a piece that is in the vocabulary becomes one token
  std::unordered_map<std::string, uint32_t> vocab;  // ids by token, in GPT-2's byte characters
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<AddedToken> added;
};

// Parses a tokenizer.json. Throws Error(kFormat) naming `file` and its unsupported content: another
// model type (Unigram, WordPiece), a BPE that is not byte-level, another pre-tokenizer or
// normalizer.
ByteBpeSpec parse_tokenizer_json(std::string_view text, const std::string& file);

}  // namespace am::data
