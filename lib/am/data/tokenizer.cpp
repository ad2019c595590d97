#include "am/data/tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/data/tokenizer/ranked_bytes.h"
#include "am/data/tokenizer/sentencepiece_file.h"
#include "am/data/tokenizer/tokenizer_json.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytes = 256;

class ByteTokenizer : public Tokenizer {
 public:
  void append_tokens(std::string_view text, const EncodeOptions&,
                     std::vector<uint32_t>& out) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    out.insert(out.end(), bytes, bytes + text.size());
  }
  std::vector<TokenPlace> places(std::string_view text, const EncodeOptions&) const override {
    std::vector<TokenPlace> out;
    for (size_t i = 0; i < text.size(); ++i) {
      out.push_back({static_cast<unsigned char>(text[i]), i, i + 1});
    }
    return out;
  }
  std::string text(std::span<const int64_t> ids, bool) const override {
    std::string out;
    for (const int64_t id : ids) out += token(id);
    return out;
  }
  std::string token(int64_t id) const override {
    return id >= 0 && id < kBytes ? std::string(1, static_cast<char>(id)) : std::string();
  }
  std::string token_bytes(int64_t id) const override { return token(id); }
  std::optional<int64_t> token_id(std::string_view token) const override {
    if (token.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(token[0]);
  }
  std::vector<std::string> special_tokens() const override { return {}; }
  int64_t vocab_size() const override { return kBytes; }
  std::string name() const override { return "bytes"; }
};

constexpr std::array<const char*, 6> kFileNames = {"tokenizer.json",          "tekken.json",
                                                   "tokenizer.model",         "spiece.model",
                                                   "sentencepiece.bpe.model", "tiktoken.model"};

}  // namespace

std::vector<int64_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<uint32_t> ids;
  append_tokens(text, options, ids);
  return {ids.begin(), ids.end()};
}

int64_t Tokenizer::required_token_id(std::string_view token) const {
  if (const auto id = token_id(token)) return *id;
  std::vector<std::string> names = special_tokens();
  std::string hint;
  if (const auto similar = nearest(token, names)) {
    hint = cat("did you mean \"", *similar, "\"?");
  } else if (!names.empty()) {
    constexpr size_t kMost = 8;
    std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
      return edit_distance(token, a) < edit_distance(token, b);
    });
    names.resize(std::min(names.size(), kMost));
    hint = cat("its special tokens include ", join(names, ", "));
  } else {
    hint = "it has no special tokens; give the id of a token";
  }
  throw Error(ErrorKind::kPlan, cat("the tokenizer ", name(), " has no token \"", token, "\""),
              hint);
}

std::optional<fs::path> find_tokenizer(const fs::path& folder) {
  for (const char* name : kFileNames) {
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  return std::nullopt;
}

fs::path tokenizer_file(const std::string& name) {
  if (!fs::is_directory(name)) return name;
  return find_tokenizer(name).value_or(fs::path(name) / kFileNames.front());
}

std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view content, const std::string& file) {
  if (is_rank_lines(content)) return parse_rank_lines(content, file);
  if (is_sentencepiece(content)) return parse_sentencepiece(content, file);
  Diagnostics found;
  const auto json = parse_sorted_json(content, file, found);
  if (!json) throw Error(ErrorKind::kFormat, cat(file, ": ", found.items().front().message));
  return is_tekken(*json) ? read_tekken(*json, file) : read_tokenizer_json(*json, file);
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  const fs::path file = tokenizer_file(name);
  return parse_tokenizer(read_file(file), file.string());
}

}  // namespace am::data
