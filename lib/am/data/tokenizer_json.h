// A Hugging Face tokenizer.json as plain values, as far as byte-level BPE needs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "am/data/regex.h"

namespace am::data {

// A token that is looked for in the text itself, before anything else.
struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool normalized = false;  // looked for after normalization, not before
  bool strip_left = false;  // takes the white space before it
  bool strip_right = false;
};

// Cuts pieces into smaller pieces at the matches of a pattern.
struct SplitStep {
  Regex pattern;
  bool keep_matches = true;
  bool keep_rest = true;  // what lies between the matches
};

struct ByteBpeSpec {
  bool normalize_nfc = false;
  bool add_prefix_space = false;  // where the text does not begin with a space
  std::vector<SplitStep> splits;
  bool ignore_merges = false;  // a piece that is in the vocabulary as a whole is not merged up to
  std::unordered_map<std::string, uint32_t> vocab;  // in GPT-2's letters for bytes
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<AddedToken> added;
};

// Throws Error(kFormat) that names `file` and what it holds that we do not know: another model type
// (Unigram, WordPiece), a BPE that is not byte-level, another pre-tokenizer or normalizer.
ByteBpeSpec parse_tokenizer_json(std::string_view text, const std::string& file);

}  // namespace am::data
