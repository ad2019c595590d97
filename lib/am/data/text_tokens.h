// Tokenises data of the kind "text".
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "am/data/token_source.h"
#include "am/data/tokenizer.h"

namespace am::data {

// The tokens of some consecutive documents.
struct TokenizedText {
  std::vector<uint32_t> ids;
  std::vector<int64_t> lengths;  // number of tokens of each document, its eod_token included
};

// Tokenises files on spec.threads threads, and passes the tokens to `consume` in the order of the
// documents. Logs rate and time left at most every ten seconds. Throws the errors of
// open_token_source().
void tokenize_text(const DataSpec& spec, const Tokenizer& tokenizer,
                   const std::vector<std::filesystem::path>& files,
                   const std::function<void(TokenizedText)>& consume);

// Returns a description of tokenised files for the log. `separated`: whether an eod_token follows
// each document. `tokenizer`: the tokenizer's name, for the parentheses at the end.
std::string describe_text(const std::vector<std::filesystem::path>& files, int64_t documents,
                          int64_t tokens, bool separated, const std::string& tokenizer);

// Implements open_token_source() for the kind "text". The tokens stay in memory.
std::unique_ptr<TokenSource> open_text(const DataSpec& spec);

}  // namespace am::data
