#include "am/data/prepared.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/host.h"
#include "am/base/json.h"
#include "am/base/json_integer.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/data/chat_files.h"
#include "am/data/mapped_tokens.h"
#include "am/data/paths.h"
#include "am/data/text_tokens.h"
#include "am/data/tokenizer.h"

namespace am::data {

namespace fs = std::filesystem;

namespace {

constexpr int kVersion = 1;
constexpr const char* kFormat = "automesh-prepared";
constexpr const char* kFacts = "prepared.json";

// Returns a hash of the tokenizer's file and of the other files in its folder on which tokens may
// depend. For the tokenizer "bytes", returns "bytes".
std::string tokenizer_hash(const std::string& name) {
  if (name == "bytes") return name;
  const fs::path file = tokenizer_file(name);
  std::string all = read_file(file);
  for (const char* beside : {"chat_template.jinja", "tokenizer_config.json",
                             "special_tokens_map.json", "added_tokens.json"}) {
    std::error_code ignored;
    const fs::path path = folder_of(file) / beside;
    if (path != file && fs::exists(path, ignored)) all += cat("\n", beside, "\n", read_file(path));
  }
  const fs::path others = folder_of(file) / "additional_chat_templates";
  std::error_code ignored;
  std::vector<fs::path> templates;
  for (fs::directory_iterator entry(others, ignored), end; !ignored && entry != end; ++entry) {
    templates.push_back(entry->path());
  }
  std::sort(templates.begin(), templates.end());
  for (const fs::path& each : templates) {
    all += cat("\n", each.filename().string(), "\n", read_file(each));
  }
  return hash_text(hash_name(all));
}

// Returns the content of prepared.json without the numbers of documents and tokens: everything on
// which the prepared tokens depend.
Json source_facts(const DataSpec& spec, const std::vector<fs::path>& files) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"kind", spec.kind},
               {"tokenizer", tokenizer_hash(spec.tokenizer)},
               {"eod_token", spec.eod_token ? Json(*spec.eod_token) : Json()}};
  if (spec.splits_special) json["split_special_tokens"] = true;
  if (spec.kind == "chat") {
    json["loss_on"] = static_cast<int>(spec.loss_on);
    json["columns"] = spec.columns;
  }
  Json& list = json["files"] = Json::array();
  for (const fs::path& file : files) {
    const auto modified = fs::last_write_time(file).time_since_epoch();
    list.push_back(
        {{"name", file.filename().string()},
         {"bytes", fs::file_size(file)},
         {"modified_ns", std::chrono::duration_cast<std::chrono::nanoseconds>(modified).count()}});
  }
  return json;
}

struct Place {
  std::vector<fs::path> files;
  Json facts;
  fs::path folder;
};

Place place_of(const DataSpec& spec) {
  Place place;
  place.files = expand_paths(spec.paths);
  place.facts = source_facts(spec, place.files);
  const std::string hash = hash_text(hash_name(dump_json(place.facts, -1)));
  place.folder = spec.prepared / cat(spec.kind, "-", hash);
  return place;
}

// Returns the Place of the prepared data, and the counts in the folder's prepared.json; nullopt if
// the data have not been prepared.
std::optional<std::pair<Place, Prepared>> find_prepared(const DataSpec& spec) {
  std::error_code ignored;
  if (spec.prepared.empty() || !fs::exists(spec.prepared, ignored)) return std::nullopt;
  Place place = place_of(spec);
  const fs::path file = place.folder / kFacts;
  if (!fs::exists(file, ignored)) return std::nullopt;
  const Json json = parse_json_object(read_file(file, kAnySize), file.string());
  try {
    Prepared prepared = {place.folder, integer_of(json.at("documents")),
                         integer_of(json.at("tokens")), /*was_there=*/true};
    return std::pair(std::move(place), std::move(prepared));
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kFormat, cat(file.string(), ": ", json_reason(error)));
  }
}

// A folder that is written under a temporary name. publish() renames it to its final name; the
// destructor removes a folder that was not published.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& folder)
      : folder_(folder), partial_(cat(folder.string(), ".partial-", unique_id())) {
    fs::create_directories(partial_);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!published_) fs::remove_all(partial_, ignored);
  }

  const fs::path& partial() const { return partial_; }
  void publish() {
    sync_folder(partial_);
    std::error_code failed;
    fs::rename(partial_, folder_, failed);
    if (failed && fs::exists(folder_ / kFacts)) return;  // another process published first
    if (failed) {
      throw Error(ErrorKind::kIo, cat(folder_.string(), ": cannot rename: ", failed.message()),
                  "if the folder exists, remove it: it is not complete");
    }
    published_ = true;
    sync_folder(folder_.parent_path());
  }

 private:
  fs::path folder_;
  fs::path partial_;
  bool published_ = false;
};

void write_text(const DataSpec& spec, const Place& place, const fs::path& into, Prepared& done) {
  const auto tokenizer = make_tokenizer(spec.tokenizer);
  const int64_t ids = std::max(tokenizer->vocab_size(), spec.eod_token.value_or(0) + 1);
  MegatronWriter writer(into / "tokens", ids <= 65536 ? TokenType::kUint16 : TokenType::kInt32);
  tokenize_text(spec, *tokenizer, place.files, [&](const TokenizedText& text) {
    std::vector<int32_t> lengths;
    for (const int64_t length : text.lengths) {
      if (length > INT32_MAX) {
        throw Error(ErrorKind::kFormat, "a document has 2^31 tokens or more",
                    "divide the document into several");
      }
      lengths.push_back(static_cast<int32_t>(length));
    }
    writer.add(text.ids, lengths);
    done.documents += static_cast<int64_t>(text.lengths.size());
    done.tokens += static_cast<int64_t>(text.ids.size());
  });
  writer.finish();
}

void write_chat(const DataSpec& spec, const Place& place, const fs::path& into, Prepared& done) {
  const auto tokenizer = make_tokenizer(spec.tokenizer);
  const Examples examples = read_chat(spec, *tokenizer, place.files);
  MegatronWriter tokens(into / "tokens", TokenType::kInt32);
  MegatronWriter counted(into / "counted", TokenType::kUint8);
  for (int64_t i = 0; i < examples.size(); ++i) {
    const auto ids = examples.ids(i);
    const auto counts = examples.counted(i);
    const std::array<int32_t, 1> length = {static_cast<int32_t>(ids.size())};
    tokens.add(std::vector<uint32_t>(ids.begin(), ids.end()), length);
    counted.add(std::vector<uint32_t>(counts.begin(), counts.end()), length);
  }
  tokens.finish();
  counted.finish();
  done.documents = examples.size();
  done.tokens = examples.tokens();
}

[[noreturn]] void fail_damaged(const fs::path& folder) {
  throw Error(ErrorKind::kFormat, cat(folder.string(), ": the prepared data are damaged"),
              "remove the folder; am-run prepare writes it again");
}

}  // namespace

bool can_prepare(const DataSpec& spec) { return spec.kind == "text" || spec.kind == "chat"; }

Prepared prepare(const DataSpec& spec) {
  AM_ASSERT(can_prepare(spec) && !spec.prepared.empty(), "the data cannot be prepared");
  if (auto found = find_prepared(spec)) return found->second;
  const Place place = place_of(spec);
  Prepared done = {.folder = place.folder};
  fs::create_directories(spec.prepared);
  NewFolder folder(place.folder);
  if (spec.kind == "text") {
    write_text(spec, place, folder.partial(), done);
  } else {
    write_chat(spec, place, folder.partial(), done);
  }
  Json facts = place.facts;
  facts["documents"] = done.documents;
  facts["tokens"] = done.tokens;
  write_file_atomically(folder.partial() / kFacts, dump_json(facts) + "\n");
  folder.publish();
  return done;
}

std::unique_ptr<TokenSource> open_prepared_text(const DataSpec& spec) {
  const auto found = find_prepared(spec);
  if (!found) return nullptr;
  const auto& [place, prepared] = *found;
  std::vector<TokenFile> files;
  files.push_back(open_megatron_file(prepared.folder / "tokens"));
  if (files.front().size != prepared.tokens) fail_damaged(prepared.folder);
  const std::string what = describe_text(
      place.files, prepared.documents, prepared.tokens, spec.eod_token.has_value(),
      cat(tokenizer_file(spec.tokenizer).string(), "; from ", prepared.folder.string()));
  return std::make_unique<MappedTokens>("text", std::move(files), spec.vocab_size, what);
}

std::optional<Examples> read_prepared_chat(const DataSpec& spec) {
  const auto found = find_prepared(spec);
  if (!found) return std::nullopt;
  const fs::path& folder = found->second.folder;
  const std::vector<int32_t> lengths = megatron_lengths(folder / "tokens.idx");
  if (megatron_lengths(folder / "counted.idx") != lengths) fail_damaged(folder);
  std::vector<TokenFile> token_files, counted_files;
  token_files.push_back(open_megatron_file(folder / "tokens"));
  counted_files.push_back(open_megatron_file(folder / "counted"));
  const MappedTokens tokens("chat", std::move(token_files), spec.vocab_size);
  const MappedTokens counted("chat", std::move(counted_files), /*vocab_size=*/2);
  Examples examples;
  Example example;
  std::vector<int64_t> counts;
  int64_t first = 0;
  for (const int32_t length : lengths) {
    example.ids.resize(static_cast<size_t>(length));
    counts.resize(static_cast<size_t>(length));
    tokens.read(first, example.ids);
    counted.read(first, counts);
    example.counted.assign(counts.begin(), counts.end());
    examples.add(example);
    first += length;
  }
  if (examples.size() != found->second.documents) fail_damaged(folder);
  return examples;
}

}  // namespace am::data
