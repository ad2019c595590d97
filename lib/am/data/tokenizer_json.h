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

// A token that is cut out of the text before the text is split into pieces.
struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool normalized = false;  // searched after normalization, not before
  bool strip_left = false;  // absorbs the white space before it
  bool strip_right = false;
};

// Splits pieces at the matches of a pattern.
struct SplitStep {
  Regex pattern;
  bool keep_matches = true;
  bool keep_rest = true;  // text between the matches
};

struct ByteBpeSpec {
  bool normalize_nfc = false;
  bool add_prefix_space = false;  // if the text does not begin with a space
  std::vector<SplitStep> splits;
  bool ignore_merges = false;  // a piece in the vocabulary becomes one token without merges
  std::unordered_map<std::string, uint32_t> vocab;  // in GPT-2's letters for bytes
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<AddedToken> added;
};

// Throws Error(kFormat) naming `file` and its unsupported content: another model type (Unigram,
// WordPiece), a BPE that is not byte-level, another pre-tokenizer or normalizer.
ByteBpeSpec parse_tokenizer_json(std::string_view text, const std::string& file);

}  // namespace am::data
