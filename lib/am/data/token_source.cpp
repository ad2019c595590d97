#include "am/data/token_source.h"

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/data/mapped_tokens.h"
#include "am/data/paths.h"
#include "am/data/prepared.h"
#include "am/data/text_tokens.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

// Synthetic tokens, which a model can learn. Each token depends only on (seed, position), and is
// below the vocabulary size.
//
// Each run of 64 tokens is an arithmetic progression modulo min(vocab_size, 512). Its start and its
// stride (1 to 8) are random numbers that depend only on the seed and on the run's index. The
// values are scaled to the whole vocabulary, so every rank of a vocabulary-parallel layer has work.
// From the third token of a run on, a model can predict each token from the two preceding tokens.
// The loss can therefore fall to a few per cent of ln(512).
class SyntheticTokens : public TokenSource {
 public:
  SyntheticTokens(int64_t vocab_size, int64_t seed)
      : vocab_size_(vocab_size), modulus_(std::min(vocab_size, kLargestModulus)), seed_(seed) {
    if (vocab_size < 1) {
      throw Error(ErrorKind::kPlan,
                  cat("synthetic data needs a vocab_size of at least 1, not ", vocab_size));
    }
  }

  int64_t size() const override { return kSize; }

  void read(int64_t first, std::span<int64_t> out) const override {
    AM_ASSERT(first >= 0 && first + static_cast<int64_t>(out.size()) <= kSize,
              "outside the tokens");
    int64_t run = -1;
    int64_t start = 0;
    int64_t stride = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t position = first + static_cast<int64_t>(i);
      if (position / kRunLength != run) {
        run = position / kRunLength;
        const auto words = philox4x32(static_cast<uint64_t>(seed_), static_cast<uint64_t>(run), 0);
        start = words[0] % modulus_;
        stride = 1 + words[1] % kStrides;
      }
      const int64_t value = (start + stride * (position % kRunLength)) % modulus_;
      out[i] = value * vocab_size_ / modulus_;
    }
  }

  std::string description() const override {
    return cat("synthetic: arithmetic progressions modulo ", modulus_, ", seed ", seed_);
  }

 private:
  static constexpr int64_t kRunLength = 64;
  static constexpr int64_t kSize = int64_t{1} << 40;
  static constexpr int64_t kLargestModulus = 512;
  static constexpr int64_t kStrides = 8;

  int64_t vocab_size_;
  int64_t modulus_;
  int64_t seed_;
};

std::unique_ptr<TokenSource> open_tokens(const DataSpec& spec) {
  const TokenType type = parse_token_dtype(spec.token_dtype);
  std::vector<TokenFile> files;
  for (const fs::path& path : expand_paths(spec.paths))
    files.push_back(open_shard_or_headerless(path, type));
  return std::make_unique<MappedTokens>(spec.kind, std::move(files), spec.vocab_size);
}

// Opens pairs of .bin and .idx files. A folder or a glob matches both files of a pair; the pair is
// opened once, by its .bin.
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
    throw Error(ErrorKind::kIo, cat(spec.paths.front().string(), ": no .bin file was found there"));
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
                "use synthetic, text, tokens, megatron, chat or synthetic_chat");
  }
  if (spec.paths.empty()) {
    throw Error(ErrorKind::kPlan, cat("data.kind = \"", spec.kind, "\" needs data.path"),
                "name a file, a folder, or a pattern such as \"corpus/*.txt\"");
  }
  if (spec.kind == "text") {
    auto prepared = open_prepared_text(spec);
    return prepared ? std::move(prepared) : open_text(spec);
  }
  if (spec.kind == "tokens") return open_tokens(spec);
  return open_megatron(spec);
}

}  // namespace am::data
