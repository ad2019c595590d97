#include "am/data/text_tokens.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/in_order.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/data/data_file.h"
#include "am/data/file_format.h"
#include "am/data/json_lines.h"
#include "am/data/paths.h"
#include "am/data/progress.h"
#include "am/data/tokenizer.h"

namespace am::data {
namespace {

constexpr size_t kLargestDocument = (size_t{1} << 31) - 1;  // in bytes

namespace fs = std::filesystem;

// Tokenised text in memory. `Id` is uint16_t if all ids fit, otherwise uint32_t.
template <typename Id>
class TextTokens : public TokenSource {
 public:
  TextTokens(std::vector<Id> ids, std::string description)
      : ids_(std::move(ids)), description_(std::move(description)) {}

  int64_t size() const override { return static_cast<int64_t>(ids_.size()); }
  void read(int64_t first, std::span<int64_t> out) const override {
    AM_ASSERT(first >= 0 && first + static_cast<int64_t>(out.size()) <= size(),
              "the range is outside the tokens");
    std::copy_n(ids_.begin() + first, out.size(), out.begin());
  }
  std::string description() const override { return description_; }

 private:
  std::vector<Id> ids_;
  std::string description_;
};

// Returns the value of "text" in an object of a JSON or Parquet file. Throws Error(kFormat) if
// "text" is missing or not a string.
std::string text_of(const Json& object, const std::string& where) {
  if (object.is_object() && object.contains("text") && object["text"].is_string()) {
    return object["text"].get<std::string>();
  }
  throw Error(ErrorKind::kFormat, cat(where, ": \"text\" is missing or not a string"),
              "write one document per line or row, as a string: {\"text\": \"...\"}");
}

// Tokenises documents on several threads.
class TextReader {
 public:
  TextReader(const DataSpec& spec, const Tokenizer& tokenizer, const std::vector<fs::path>& files,
             const std::function<void(TokenizedText)>& consume)
      : spec_(spec),
        tokenizer_(tokenizer),
        progress_("tokenising", files, spec.log),
        work_(spec.threads, consume) {
    if (spec.eod_token && *spec.eod_token >= spec.vocab_size) {
      throw Error(ErrorKind::kPlan,
                  cat("data.eod_token = ", *spec.eod_token,
                      " must be below the model's vocab_size, ", spec.vocab_size));
    }
  }

  void read(const fs::path& path) {
    const auto file = std::make_shared<const DataFile>(path, "UTF-8 text");
    int64_t bytes = 0;
    if (file->is_table() || shape_of(file->name(), file->beginning().text) != TextShape::kText) {
      constexpr int64_t kBytesOfTask = 1 << 20;
      const std::vector<std::string> keys = {"text"};
      for_each_objects(*file, keys, kBytesOfTask, [&](JsonObjects objects) {
        bytes = objects.file_bytes;
        work_.add([this, file, objects = std::move(objects)] {
          TokenizedText out;
          objects.for_each([&](const Json& object, const std::string& where) {
            append(where, text_of(object, where), out);
          });
          return out;
        });
        progress_.set(bytes);
      });
    } else {
      const DataBlock whole = file->whole();
      bytes = whole.file_bytes;
      work_.add([this, file, whole] {
        TokenizedText out;
        append(file->path().string(), whole.text, out);
        return out;
      });
    }
    progress_.finish_file(bytes);
    progress_.set(0);
  }

  void finish() { work_.finish(); }

 private:
  // Appends the tokens of a document, and the eod_token if the spec has one. `where` names the
  // document in messages.
  void append(const std::string& where, std::string_view text, TokenizedText& out) const {
    if (text.size() > kLargestDocument) {
      throw Error(ErrorKind::kFormat,
                  cat(where, ": the document has ", text.size(), " bytes; the limit is 2^31 - 1"),
                  "write the documents as JSON Lines, {\"text\": \"...\"}, or as several files");
    }
    const size_t before = out.ids.size();
    tokenizer_.append_tokens(text, {.split_special_tokens = spec_.splits_special}, out.ids);
    const auto largest =
        std::max_element(out.ids.begin() + static_cast<ptrdiff_t>(before), out.ids.end());
    if (largest != out.ids.end() && *largest >= spec_.vocab_size) {
      throw Error(
          ErrorKind::kPlan,
          cat(where, ": the tokenizer (", tokenizer_.name(), ") gives the id ", *largest,
              ", but the model's vocab_size is ", spec_.vocab_size),
          "use the tokenizer that belongs to the model, or a model with a larger vocabulary");
    }
    if (spec_.eod_token) out.ids.push_back(static_cast<uint32_t>(*spec_.eod_token));
    out.lengths.push_back(static_cast<int64_t>(out.ids.size() - before));
  }

  const DataSpec& spec_;
  const Tokenizer& tokenizer_;
  FileProgress progress_;
  InOrder<TokenizedText> work_;
};

template <typename Id>
std::unique_ptr<TokenSource> read_text(const DataSpec& spec, const Tokenizer& tokenizer) {
  const std::vector<fs::path> files = expand_paths(spec.paths);
  std::vector<Id> all;
  int64_t documents = 0;
  tokenize_text(spec, tokenizer, files, [&](const TokenizedText& text) {
    all.insert(all.end(), text.ids.begin(), text.ids.end());
    documents += static_cast<int64_t>(text.lengths.size());
  });
  std::string description = describe_text(files, documents, static_cast<int64_t>(all.size()),
                                          spec.eod_token.has_value(), tokenizer.name());
  return std::make_unique<TextTokens<Id>>(std::move(all), std::move(description));
}

}  // namespace

std::string describe_text(const std::vector<fs::path>& files, int64_t documents, int64_t tokens,
                          bool separated, const std::string& tokenizer) {
  const char* ends = separated ? " documents" : " documents without a separator";
  return cat("text: ", files_text(files.front(), files.size()), ", ",
             documents > 1 ? cat(format_count(documents), ends, ", ") : "", format_count(tokens),
             " tokens (", tokenizer, ")");
}

void tokenize_text(const DataSpec& spec, const Tokenizer& tokenizer,
                   const std::vector<fs::path>& files,
                   const std::function<void(TokenizedText)>& consume) {
  TextReader reader(spec, tokenizer, files, consume);
  for (const fs::path& file : files) reader.read(file);
  reader.finish();
}

std::unique_ptr<TokenSource> open_text(const DataSpec& spec) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(spec.tokenizer);
  const int64_t ids = std::max(tokenizer->vocab_size(), spec.eod_token.value_or(0) + 1);
  return ids <= 65536 ? read_text<uint16_t>(spec, *tokenizer)
                      : read_text<uint32_t>(spec, *tokenizer);
}

}  // namespace am::data
