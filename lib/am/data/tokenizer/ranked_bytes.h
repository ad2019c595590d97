// Reads tokenizer files that list byte strings with their ranks: the files of OpenAI's tiktoken,
// whose format Llama 3, Qwen and Moonlight also use, and Mistral's tekken.json.
//
// tiktoken's files contain neither the pattern that splits text nor special tokens.
// ranked_bytes.cpp contains the pattern and the special tokens of six encodings: cl100k, o200k,
// r50k, llama3, qwen and kimi. A file's encoding is the encoding whose name occurs in the file's
// name, or otherwise the encoding with as many tokens as the file. In a tokenizer_config.json in
// the same folder, "pat_str" overrides the pattern, and "added_tokens_decoder" overrides the
// special tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "am/base/json.h"
#include "am/data/tokenizer.h"

namespace am::data {

// Whether the first line of `content` is a token in base64 and its rank, as in tiktoken's files.
bool is_rank_lines(std::string_view content);
// Returns the tokenizer that `content`, the lines of the tiktoken file `file`, defines. Throws
// Error(kFormat) with file and line if a line is wrong. Throws Error(kFormat) if the encoding is
// not known and no "pat_str" overrides the pattern.
std::unique_ptr<Tokenizer> parse_rank_lines(std::string_view content, const std::string& file);

// Whether a JSON file has the keys of a tekken.json, and is not a tokenizer.json.
bool is_tekken(const SortedJson& json);
// Returns the tokenizer of a tekken.json. Throws Error(kFormat) with the place in the file if a
// value is wrong.
std::unique_ptr<Tokenizer> read_tekken(const SortedJson& json, const std::string& file);

}  // namespace am::data
