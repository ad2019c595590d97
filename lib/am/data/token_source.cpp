#include "am/data/token_source.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/data/mapped_tokens.h"
#include "am/data/paths.h"
#include "am/data/synthetic.h"
#include "am/data/text_tokens.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<TokenSource> open_tokens(const DataSpec& spec) {
  const TokenType type = parse_token_dtype(spec.token_dtype);
  std::vector<TokenFile> files;
  for (const fs::path& path : expand_paths(spec.paths))
    files.push_back(open_token_file(path, type));
  return std::make_unique<MappedTokens>(spec.kind, std::move(files), spec.vocab_size);
}

// A folder or a glob also matches the .idx files; each pair is opened by its .bin.
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
