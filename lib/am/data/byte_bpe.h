// Hugging Face's byte-level BPE: GPT-2, Llama 3, Qwen, SmolLM.
//
//   text -> added tokens cut out -> NFC -> pieces by a pattern -> bytes -> merges -> ids
//
// Gives the ids of `tokenizers`' encode(text, add_special_tokens=False). Bytes that are no UTF-8
// count as U+FFFD, as Python reads them with errors="replace".
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "am/data/tokenizer.h"

namespace am::data {

// A tokenizer.json, or a folder that holds one. Throws Error(kIo) when it cannot be read,
// Error(kFormat) when it is not byte-level BPE: see data/tokenizer_json.h.
std::unique_ptr<Tokenizer> load_byte_bpe(const std::filesystem::path& path);
// The same from text; `file` is only named.
std::unique_ptr<Tokenizer> parse_byte_bpe(std::string_view text, const std::string& file);

}  // namespace am::data
