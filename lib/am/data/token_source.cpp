#include "am/data/token_source.h"

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/data/mapped_tokens.h"
#include "am/data/paths.h"
#include "am/data/synthetic.h"
#include "am/data/tokenizer.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

// Text as tokens, held in memory in the smallest type that the tokenizer's ids need.
template <typename Id>
class TextTokens : public TokenSource {
 public:
  TextTokens(std::vector<Id> ids, std::string description)
      : ids_(std::move(ids)), description_(std::move(description)) {}

  int64_t size() const override { return static_cast<int64_t>(ids_.size()); }
  void read(int64_t first, std::span<int64_t> out) const override {
    AM_ASSERT(first >= 0 && first + static_cast<int64_t>(out.size()) <= size(),
              "beyond the tokens");
    std::copy_n(ids_.begin() + first, out.size(), out.begin());
  }
  std::string description() const override { return description_; }

 private:
  std::vector<Id> ids_;
  std::string description_;
};

void check_vocabulary(const std::vector<uint32_t>& ids, const fs::path& file, const Tokenizer& by,
                      int64_t vocab_size) {
  const auto largest = std::max_element(ids.begin(), ids.end());
  if (largest == ids.end() || *largest < vocab_size) return;
  throw Error(ErrorKind::kPlan,
              cat(file.string(), ": the tokenizer (", by.name(), ") gives the id ", *largest,
                  ", but the model's vocab_size is ", vocab_size),
              "use the tokenizer that belongs to the model, or a model with a larger vocabulary");
}

template <typename Id>
std::unique_ptr<TokenSource> read_text(const std::vector<fs::path>& files,
                                       const Tokenizer& tokenizer, int64_t vocab_size) {
  std::vector<Id> all;
  std::vector<uint32_t> ids;
  for (const fs::path& file : files) {
    const MappedFile text(file);
    if (text.bytes().empty()) {
      throw Error(ErrorKind::kFormat, cat(file.string(), ": the file is empty"));
    }
    ids.clear();
    tokenizer.append_tokens(
        {reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size()}, ids);
    check_vocabulary(ids, file, tokenizer, vocab_size);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  std::string description =
      cat("text: ", files.front().string(),
          files.size() > 1 ? cat(" and ", files.size() - 1, " more") : "", ", ",
          format_count(static_cast<int64_t>(all.size())), " tokens (", tokenizer.name(), ")");
  return std::make_unique<TextTokens<Id>>(std::move(all), std::move(description));
}

std::vector<fs::path> expand_all(const DataSpec& spec) {
  std::vector<fs::path> files;
  for (const fs::path& path : spec.paths) {
    const auto found = expand_path(path);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::unique_ptr<TokenSource> open_text(const DataSpec& spec) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(spec.tokenizer);
  const std::vector<fs::path> files = expand_all(spec);
  if (tokenizer->vocab_size() <= 65536) {
    return read_text<uint16_t>(files, *tokenizer, spec.vocab_size);
  }
  return read_text<uint32_t>(files, *tokenizer, spec.vocab_size);
}

std::unique_ptr<TokenSource> open_tokens(const DataSpec& spec) {
  const TokenType type = parse_token_dtype(spec.token_dtype);
  std::vector<TokenFile> files;
  for (const fs::path& path : expand_all(spec)) files.push_back(open_token_file(path, type));
  return std::make_unique<MappedTokens>(spec.kind, std::move(files), spec.vocab_size);
}

// A folder or a glob also matches the .idx files: each pair is named by its .bin.
std::unique_ptr<TokenSource> open_megatron(const DataSpec& spec) {
  std::vector<TokenFile> files;
  for (const fs::path& path : spec.paths) {
    if (!fs::is_directory(path) && !is_glob(path.string())) {
      files.push_back(open_megatron_file(path));
      continue;
    }
    for (const fs::path& file : expand_path(path)) {
      if (file.extension() == ".bin") files.push_back(open_megatron_file(file));
    }
  }
  if (files.empty()) {
    throw Error(ErrorKind::kIo, cat(spec.paths.front().string(), ": no .bin file there"));
  }
  return std::make_unique<MappedTokens>(spec.kind, std::move(files), spec.vocab_size);
}

}  // namespace

std::unique_ptr<TokenSource> open_token_source(const DataSpec& spec) {
  if (spec.kind == "synthetic") {
    return std::make_unique<SyntheticTokens>(spec.vocab_size, spec.seed);
  }
  if (spec.kind != "text" && spec.kind != "tokens" && spec.kind != "megatron") {
    throw Error(ErrorKind::kPlan, cat("data.kind = \"", spec.kind, "\" is not known"),
                "use synthetic, text, tokens or megatron");
  }
  if (spec.paths.empty()) {
    throw Error(ErrorKind::kPlan, cat("data.kind = \"", spec.kind, "\" needs data.path"),
                "name a file, a folder, or a pattern such as \"corpus/*.txt\"");
  }
  if (spec.kind == "text") return open_text(spec);
  if (spec.kind == "tokens") return open_tokens(spec);
  return open_megatron(spec);
}

}  // namespace am::data
