// WordPiece, the model of BERT's family, and WordLevel, in which a token is always a whole piece.
#pragma once

#include <memory>
#include <string>

#include "am/data/tokenizer/token_model.h"

namespace am::data {

struct WordSpec {
  Vocabulary vocabulary;
  std::optional<uint32_t> unknown;  // id of the token for unknown text
  bool whole_pieces = false;        // WordLevel: a piece is one token, or unknown
  // WordPiece only: the prefix of tokens that continue a word, and the maximum number of characters
  // of a word. A longer word is unknown.
  std::string subword_prefix = "##";
  size_t longest_word = 100;
};

std::unique_ptr<const TokenModel> word_model(WordSpec spec);

}  // namespace am::data
