// Unigram: segments a piece into the tokens with the highest sum of scores.
//
// Sums are computed as in `tokenizers` (float64) or SentencePiece (float32), with the same order of
// additions, so that ties are resolved as in these libraries.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "am/data/tokenizer/token_model.h"

namespace am::data {

struct UnigramToken {
  std::string text;
  uint32_t id = 0;
  double score = 0.0;
  // A user-defined symbol of SentencePiece, which is preferred to all other tokens.
  bool user_defined = false;
};

struct UnigramSpec {
  std::vector<UnigramToken> tokens;
  UnknownText unknown;
  double min_score = 0.0;  // lowest score; the score of an unknown character is 10 less
  double max_score = 0.0;  // highest score; determines the scores of user-defined symbols
  enum class Kind { kTokenizers, kSentencePiece } kind = Kind::kTokenizers;
};

std::unique_ptr<const TokenModel> unigram_model(UnigramSpec spec);

}  // namespace am::data
