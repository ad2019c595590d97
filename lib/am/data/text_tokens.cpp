#include "am/data/text_tokens.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/data/file_format.h"
#include "am/data/json_lines.h"
#include "am/data/paths.h"
#include "am/data/tokenizer.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

// Tokenized text, stored in the smallest integer type that can represent the tokenizer's ids.
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

// Returns the value of "text" in a line of a .jsonl file. `line` is the line's number, from 1.
std::string text_of_line(const fs::path& file, int64_t line, std::string_view json) {
  const auto fail = [&](const std::string& reason) {
    throw Error(ErrorKind::kFormat, cat(file.string(), ":", line, ": ", reason),
                "each line is an object whose \"text\" is a document: {\"text\": \"...\"}");
  };
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) fail("the line is not JSON");
  if (!object.is_object() || !object.contains("text") || !object["text"].is_string()) {
    fail("the line has no \"text\" that is a string");
  }
  return object["text"].get<std::string>();
}

// Calls `visit` with each document of a file: the "text" of each line of a .jsonl, otherwise the
// whole file.
template <typename Visit>
void for_each_document(const fs::path& file, std::string_view bytes, Visit visit) {
  if (!is_json_lines(file, bytes)) return visit(bytes);
  for_each_line(bytes, [&](int64_t number, std::string_view line) {
    visit(text_of_line(file, number, line));
  });
}

class TextReader {
 public:
  TextReader(const DataSpec& spec, const Tokenizer& tokenizer)
      : spec_(spec), tokenizer_(tokenizer) {
    if (spec.eod_token && *spec.eod_token >= spec.vocab_size) {
      throw Error(ErrorKind::kPlan,
                  cat("data.eod_token = ", *spec.eod_token,
                      " must be below the model's vocab_size, ", spec.vocab_size));
    }
  }

  template <typename Id>
  std::unique_ptr<TokenSource> read(const std::vector<fs::path>& files) {
    std::vector<Id> all;
    for (const fs::path& file : files) {
      const MappedFile map(file);
      if (map.bytes().empty()) {
        throw Error(ErrorKind::kFormat, cat(file.string(), ": the file is empty"));
      }
      refuse_known_format(file, map.bytes(), "UTF-8 text");
      const std::string_view bytes(reinterpret_cast<const char*>(map.bytes().data()),
                                   map.bytes().size());
      for_each_document(file, bytes, [&](std::string_view text) {
        append(file, text);
        all.insert(all.end(), ids_.begin(), ids_.end());
      });
    }
    return std::make_unique<TextTokens<Id>>(std::move(all), describe(files, all.size()));
  }

 private:
  // Tokenizes a document into ids_.
  void append(const fs::path& file, std::string_view text) {
    ids_.clear();
    tokenizer_.append_tokens(text, {}, ids_);
    const auto largest = std::max_element(ids_.begin(), ids_.end());
    if (largest != ids_.end() && *largest >= spec_.vocab_size) {
      throw Error(
          ErrorKind::kPlan,
          cat(file.string(), ": the tokenizer (", tokenizer_.name(), ") gives the id ", *largest,
              ", but the model's vocab_size is ", spec_.vocab_size),
          "use the tokenizer that belongs to the model, or a model with a larger vocabulary");
    }
    if (spec_.eod_token) ids_.push_back(static_cast<uint32_t>(*spec_.eod_token));
    ++documents_;
  }

  std::string describe(const std::vector<fs::path>& files, size_t tokens) const {
    const char* ends = spec_.eod_token ? " documents" : " documents without a separator";
    return cat("text: ", files.front().string(),
               files.size() > 1 ? cat(" and ", files.size() - 1, " more") : "", ", ",
               documents_ > 1 ? cat(format_count(documents_), ends, ", ") : "",
               format_count(static_cast<int64_t>(tokens)), " tokens (", tokenizer_.name(), ")");
  }

  const DataSpec& spec_;
  const Tokenizer& tokenizer_;
  std::vector<uint32_t> ids_;
  int64_t documents_ = 0;
};

}  // namespace

std::unique_ptr<TokenSource> open_text(const DataSpec& spec) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(spec.tokenizer);
  const std::vector<fs::path> files = expand_paths(spec.paths);
  TextReader reader(spec, *tokenizer);
  const int64_t ids = std::max(tokenizer->vocab_size(), spec.eod_token.value_or(0) + 1);
  return ids <= 65536 ? reader.read<uint16_t>(files) : reader.read<uint32_t>(files);
}

}  // namespace am::data
