// Tokenizers of Hugging Face's byte-level BPE, for example of GPT-2, Llama 3, Qwen and SmolLM.
//
//   text -> added tokens cut out -> NFC -> pieces by a pattern -> bytes -> merges -> ids
//
// The ids equal those of encode(text, add_special_tokens=False) in Hugging Face's library
// `tokenizers`. Bytes that are not valid UTF-8 count as U+FFFD, as in Python with errors="replace".
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "am/data/tokenizer.h"

namespace am::data {

// Loads the tokenizer at `path`, a tokenizer.json or a folder that contains one. Throws Error(kIo)
// if it cannot be read, Error(kFormat) if it is not byte-level BPE: see data/tokenizer_json.h.
std::unique_ptr<Tokenizer> load_byte_bpe(const std::filesystem::path& path);
// Parses the text of a tokenizer.json; `file` is only used in messages.
std::unique_ptr<Tokenizer> parse_byte_bpe(std::string_view text, const std::string& file);

}  // namespace am::data
