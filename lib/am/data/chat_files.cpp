#include "am/data/chat_files.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/chat/chat_template.h"
#include "am/data/conversation.h"
#include "am/data/examples.h"
#include "am/data/file_format.h"
#include "am/data/json_lines.h"
#include "am/data/paths.h"
#include "am/data/tokenizer.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

ExampleOptions example_options(const DataSpec& spec, const SampleOptions& options) {
  return {options.seq_len, spec.max_length, spec.drops_long, spec.packs};
}

bool has_template(const fs::path& folder) {
  if (fs::exists(folder / "chat_template.jinja")) return true;
  const fs::path config = folder / "tokenizer_config.json";
  if (!fs::exists(config)) return false;
  return parse_json_object(read_file(config), config.string()).contains("chat_template");
}

// Returns the chat template beside a tokenizer; nothing if its folder has none.
std::optional<chat::ChatTemplate> template_beside(const std::string& tokenizer) {
  if (tokenizer == "bytes") return std::nullopt;
  const fs::path path = tokenizer;
  const fs::path folder = fs::is_directory(path) ? path : folder_of(path);
  if (!has_template(folder)) return std::nullopt;
  return chat::ChatTemplate::from_folder(folder);
}

// Calls `visit` with each object of a file and its place: a line, or an element of an array.
template <typename Visit>
void for_each_object(const fs::path& file, std::string_view bytes, const Visit& visit) {
  const size_t begin = bytes.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && bytes[begin] == '[') {
    const Json all = Json::parse(bytes, nullptr, /*allow_exceptions=*/false);
    if (!all.is_array()) throw Error(ErrorKind::kFormat, cat(file.string(), ": this is not JSON"));
    for (size_t i = 0; i < all.size(); ++i) visit(all[i], cat(file.string(), "[", i, "]"));
    return;
  }
  for_each_line(bytes, [&](int64_t number, std::string_view line) {
    const std::string where = cat(file.string(), ":", number);
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_discarded())
      throw Error(ErrorKind::kFormat, cat(where, ": the line is not JSON"));
    visit(object, where);
  });
}

}  // namespace

std::unique_ptr<SampleSource> open_chat(const DataSpec& spec, const SampleOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(spec.tokenizer);
  const auto chat_template = template_beside(spec.tokenizer);
  const ConversationReader reader(*tokenizer, chat_template ? &*chat_template : nullptr,
                                  {spec.loss_on, spec.columns, spec.eod_token});
  Examples examples;
  const std::vector<fs::path> files = expand_paths(spec.paths);
  for (const fs::path& file : files) {
    const MappedFile map(file);
    refuse_known_format(file, map.bytes(), "JSON Lines");
    const std::string_view bytes(reinterpret_cast<const char*>(map.bytes().data()),
                                 map.bytes().size());
    for_each_object(file, bytes, [&](const Json& object, const std::string& where) {
      const Example example = reader.read(object, where);
      for (const int64_t id : example.ids) {
        if (id >= 0 && id < spec.vocab_size) continue;
        throw Error(ErrorKind::kPlan,
                    cat(where, ": the token id ", id, " is not below the model's vocab_size, ",
                        spec.vocab_size),
                    "use the tokenizer that belongs to the model");
      }
      examples.add(example);
    });
  }
  const std::string what = cat("chat: ", files.front().string(),
                               files.size() > 1 ? cat(" and ", files.size() - 1, " more") : "",
                               " (", tokenizer->name(), ")");
  return pack_examples(std::move(examples), example_options(spec, options), what);
}

std::unique_ptr<SampleSource> make_synthetic_chat(const DataSpec& spec,
                                                  const SampleOptions& options) {
  constexpr int64_t kRows = 64;  // approximate number of rows
  const auto word = [&](int64_t example, int64_t i) {
    return philox4x32(static_cast<uint64_t>(spec.seed), static_cast<uint64_t>(example),
                      static_cast<uint64_t>(i));
  };
  Examples examples;
  for (int64_t e = 0; examples.tokens() < kRows * options.seq_len; ++e) {
    Example example;
    const int64_t length = 2 + word(e, -1)[0] % std::max<int64_t>(options.seq_len, 1);
    for (int64_t i = 0; i < length; ++i) {
      const auto random = word(e, i);
      example.ids.push_back(random[0] % spec.vocab_size);
      example.counted.push_back(i + 1 == length || random[1] % 3 == 0);
    }
    examples.add(example);
  }
  return pack_examples(std::move(examples), example_options(spec, options), "synthetic chat");
}

}  // namespace am::data
