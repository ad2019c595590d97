// A tokenizer that is composed of stages:
//
//   text -> added tokens cut out -> normalizers -> pre-tokenizers -> model -> post-processor -> ids
//   ids -> tokens -> decoders -> text
//
// The readers of files (tokenizer_json.h, sentencepiece_file.h, ranked_bytes.h) choose the stages.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "am/data/tokenizer.h"
#include "am/data/tokenizer/added_tokens.h"
#include "am/data/tokenizer/decoder.h"
#include "am/data/tokenizer/pre_tokenizer.h"
#include "am/data/tokenizer/token_model.h"

namespace am::data {

// The tokens of a vocabulary, by id.
class TokenTable {
 public:
  // `tokens`: number of tokens that the file defines; `file` is for messages.
  TokenTable(std::string file, size_t tokens) : file_(std::move(file)), tokens_(tokens) {}
  // Sets the token of an id. Throws Error(kFormat) if the id is at least 2^20 larger than `tokens`,
  // because the table allocates an entry for each smaller id.
  void set(uint32_t id, std::string_view token);
  const std::string& at(int64_t id) const;  // "" for an id without a token
  size_t size() const { return by_id_.size(); }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  size_t tokens_;
  std::vector<std::string> by_id_;
};

// Changes to the tokens of a text after the model.
struct PostProcessor {
  std::vector<uint32_t> before;  // special tokens before the text
  std::vector<uint32_t> after;
  // The option add_prefix_space of each post-processor that excludes white space at the ends of
  // tokens from the tokens' offsets.
  std::vector<bool> trims;
};

struct Stages {
  explicit Stages(TokenTable table) : tokens(std::move(table)) {}

  TokenTable tokens;
  std::vector<NormalizerStage> normalizers;
  PreTokenizers pre_tokenizers;
  std::unique_ptr<const TokenModel> model;
  std::vector<AddedToken> added;
  std::vector<DecoderStage> decoders;
  PostProcessor post;
  // Whether origins (traced_text.h) must be traced even if the caller wants only ids, because a
  // stage depends on origins.
  bool always_traced = false;
};

// Returns the tokenizer that runs `stages`.
std::unique_ptr<Tokenizer> make_pipeline(Stages stages);

}  // namespace am::data
