// Unigram: of all ways to write a piece by tokens, the one with the highest sum of scores.
//
// The sums are those of `tokenizers` (float64) or of SentencePiece (float32), in their order of
// additions, so that ties end as there.
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
  // A symbol of SentencePiece's user, which is preferred to all other tokens.
  bool user_defined = false;
};

struct UnigramSpec {
  std::vector<UnigramToken> tokens;
  UnknownText unknown;
  double min_score = 0.0;  // lowest score, from which that of an unknown character follows
  double max_score = 0.0;
  enum class Kind { kTokenizers, kSentencePiece } kind = Kind::kTokenizers;
};

std::unique_ptr<const TokenModel> unigram_model(UnigramSpec spec);

}  // namespace am::data
