// Reads a model file of SentencePiece, for example tokenizer.model of Llama 2, Mistral, Gemma and
// Phi-3, or spiece.model of T5.
//
// Except for special tokens, the ids of a text equal those of SentencePiece's encode(text). Special
// tokens are the model's control pieces, for example </s>. As in transformers, the tokenizer finds
// them in a text, and encodes the parts of the text between them separately. With
// EncodeOptions::split_special_tokens, special tokens in a text are ordinary text, as in
// SentencePiece. EncodeOptions::add_special_tokens adds <s> before a text or, if the vocabulary
// lacks <s>, adds </s> behind the text. The keys add_bos_token and add_eos_token of a
// tokenizer_config.json in the model file's folder override this rule.
//
// A model file contains one protocol buffers message, SentencePiece's ModelProto.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "am/data/tokenizer.h"

namespace am::data {

// Whether `content`, the bytes of a file, begins with a vocabulary entry of a ModelProto.
bool is_sentencepiece(std::string_view content);
// Returns the tokenizer that `content`, the bytes of the model file `file`, defines. Throws
// Error(kFormat) with the file and the field that is wrong or not supported.
std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view content, const std::string& file);

}  // namespace am::data
