// The stages that turn tokens back into text.
//
//   std::vector<std::string> tokens = {"\u2581Hi", "<0x21>"};
//   metaspace_decoder("\u2581", /*drops_first=*/true)->apply(tokens);    // "Hi", "<0x21>"
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "am/data/tokenizer/normalizer.h"

namespace am::data {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Changes the tokens of a text. After the last stage, the concatenation of the tokens is the
  // decoded text.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // Changes one token to the bytes that the token contributes in the middle of a text, without
  // spaces that the stage puts between tokens. By default, does not change the token.
  virtual void apply_alone(std::string& token) const { static_cast<void>(token); }
};
using DecoderStage = std::unique_ptr<const Decoder>;

// Turns the letters of GPT-2's vocabulary (letters_of_bytes()) into bytes. Leaves a token that
// contains any other character unchanged.
DecoderStage byte_level_decoder();
// Joins all tokens into one, and replaces invalid UTF-8 by U+FFFD.
DecoderStage utf8_decoder();
// Turns byte tokens, such as <0x0A>, into text. If a run of bytes is not UTF-8, each byte of the
// run becomes U+FFFD.
DecoderStage byte_fallback_decoder();
// Replaces each match of `pattern` in a token by `content`. Leaves a token with an incomplete UTF-8
// character unchanged.
DecoderStage replace_decoder(Pattern pattern, std::string content);
// Joins all tokens into one.
DecoderStage fuse_decoder();
// Removes the character `content` from each token: at most `left` times at its beginning, and at
// most `right` times at its end.
DecoderStage strip_decoder(std::string content, size_t left, size_t right);
// Turns each `replacement` into a space. If `drops_first`, removes `replacement` from the first
// token instead.
DecoderStage metaspace_decoder(std::string replacement, bool drops_first);
// Prepares the tokens of WordPiece for joining: from the second token on, removes `prefix` from a
// token that begins with it, and puts a space before any other token. If `cleanup`, removes spaces
// before punctuation marks and before English contractions such as "n't", and shortens "do not" to
// "don't".
DecoderStage word_piece_decoder(std::string prefix, bool cleanup);
// Turns each `suffix` into a space. Removes `suffix` from the last token instead.
DecoderStage suffix_decoder(std::string suffix);
// Joins tokens by spaces, as a tokenizer without a decoder does.
DecoderStage joining_decoder();

// Options of SentencePiece's decoder, as stored in a .model file.
struct SentencePieceDecoding {
  std::string unknown;          // the token for unknown text
  std::string unknown_surface;  // the text that replaces this token
  bool byte_fallback = false;
  SentencePieceSpaces spaces;
};
// Joins all tokens into one text, as SentencePiece does.
DecoderStage sentencepiece_decoder(SentencePieceDecoding decoding);

}  // namespace am::data
