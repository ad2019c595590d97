// Reads tokenizers that are a list of byte strings in the order of their ranks: the files of
// OpenAI's tiktoken, which Llama 3, Qwen and Moonlight also have, and Mistral's tekken.json.
//
// tiktoken's files contain neither the pattern that splits text nor special tokens. Both are known
// for six encodings: cl100k, o200k, r50k, llama3, qwen and kimi. The encoding is the one whose name
// the file's name contains, or else the one with the file's number of tokens. A
// tokenizer_config.json beside the file replaces the pattern by its "pat_str", and the special
// tokens by its "added_tokens_decoder".
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "am/base/json.h"
#include "am/data/tokenizer.h"

namespace am::data {

// Whether the first line is a token in base64 and a rank.
bool is_rank_lines(std::string_view content);
// Returns the tokenizer of a file of such lines. Throws Error(kFormat) with file and line if a line
// is wrong, or if the encoding is not known.
std::unique_ptr<Tokenizer> parse_rank_lines(std::string_view content, const std::string& file);

bool is_tekken(const SortedJson& json);
// Returns the tokenizer of a tekken.json. Throws Error(kFormat) with the place in the file if a
// value is wrong.
std::unique_ptr<Tokenizer> read_tekken(const SortedJson& json, const std::string& file);

}  // namespace am::data
