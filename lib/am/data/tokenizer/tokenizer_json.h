// Reads a tokenizer.json of Hugging Face's library `tokenizers`.
//
// The ids and offsets equal those of encode(text) in that library, except that offsets are counted
// in bytes instead of characters. These parts are read:
//   model           BPE (without dropout), Unigram, WordPiece, WordLevel
//   normalizer      all; a damaged Precompiled map is an error
//   pre_tokenizer   all except UnicodeScripts and a second ByteLevel
//   post_processor  TemplateProcessing in which the text occurs once, BertProcessing,
//                   RobertaProcessing, ByteLevel, Sequence
//   decoder         all except CTC
// Padding and truncation are ignored. Text with characters that Unicode added after version 14 may
// be cut differently.
#pragma once

#include <memory>
#include <string>

#include "am/base/json.h"
#include "am/data/tokenizer.h"

namespace am::data {

// Returns the tokenizer that `json`, the content of the file `file`, defines. Throws Error(kFormat)
// with `file` and the place of the wrong value in the JSON if the content is not a tokenizer.json,
// or has a part that is not listed above.
std::unique_ptr<Tokenizer> read_tokenizer_json(const SortedJson& json, const std::string& file);

}  // namespace am::data
