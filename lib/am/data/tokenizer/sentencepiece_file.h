// Reads a model file of SentencePiece: tokenizer.model of Llama 2, Mistral, Gemma and Phi-3,
// spiece.model of T5.
//
// Except for special tokens, the ids of a text equal those of SentencePiece's encode(text). Special
// tokens (control pieces, for example </s>) are found in text, as by transformers, and the text
// between them is encoded separately. With EncodeOptions::split_special_tokens they are ordinary
// text, as in SentencePiece. EncodeOptions::add_special_tokens adds <s> before a text if the model
// has this token, otherwise </s> behind the text. The keys add_bos_token and add_eos_token of a
// tokenizer_config.json beside the file override this rule.
//
// The file is one message of Google's protocol buffers, ModelProto.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "am/data/tokenizer.h"

namespace am::data {

// Whether the content begins with a piece of a ModelProto.
bool is_sentencepiece(std::string_view content);
// Returns the tokenizer of a model file. Throws Error(kFormat) with the file and the field that is
// wrong or not supported.
std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view content, const std::string& file);

}  // namespace am::data
