// Unigram: segments a piece into the tokens with the highest sum of scores.
//
// Scores are added in the same floating-point type and order as in `tokenizers` (float64) or
// SentencePiece (float32). Ties between segmentations therefore have the same winner.
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
  // A user-defined symbol of SentencePiece. Its score is not `score` but
  // UnigramSpec::max_score * (length in bytes) - 0.1, as in SentencePiece.
  bool user_defined = false;
};

struct UnigramSpec {
  std::vector<UnigramToken> tokens;
  UnknownText unknown;
  double min_score = 0.0;  // lowest score; the score of an unknown character is 10 less
  double max_score = 0.0;  // highest score; used for UnigramToken::user_defined only
  enum class Kind { kTokenizers, kSentencePiece } kind = Kind::kTokenizers;
};

std::unique_ptr<const TokenModel> unigram_model(UnigramSpec spec);

}  // namespace am::data
