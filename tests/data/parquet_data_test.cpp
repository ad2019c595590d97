// Tests that text, conversations and token ids of Parquet files equal those of JSON Lines with the
// same rows.
#include <catch2/catch.hpp>
#include <filesystem>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/data/chat_files.h"
#include "am/data/json_lines.h"
#include "am/data/prepared.h"
#include "am/data/token_source.h"
#include "support/folders.h"
#include "support/message_of.h"
#include "support/parquet_bytes.h"
#include "support/temporary_folder.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

const fs::path kTables = fs::path(test::kDataFolder) / "parquet";

// Chat template that prints every key of messages and tools.
constexpr const char* kShowsAll =
    "{% for tool in tools or [] %}<tool>{{ tool | tojson }}{% endfor %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m | tojson }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

DataSpec spec_of_file(const std::string& kind, const fs::path& path) {
  DataSpec spec;
  spec.kind = kind;
  spec.paths = {path};
  spec.vocab_size = 70'000;
  spec.eod_token = 256;
  return spec;
}

std::vector<int64_t> text_tokens(const DataSpec& spec) {
  const auto source = open_token_source(spec);
  std::vector<int64_t> tokens(static_cast<size_t>(source->size()));
  source->read(0, tokens);
  return tokens;
}

// Returns the ids of each conversation, and whether each id counts in the loss.
std::vector<std::pair<std::vector<int64_t>, std::vector<bool>>> conversations(
    const DataSpec& spec) {
  const Examples examples = read_chat(spec, *make_tokenizer(spec.tokenizer), spec.paths);
  std::vector<std::pair<std::vector<int64_t>, std::vector<bool>>> all;
  for (int64_t i = 0; i < examples.size(); ++i) {
    const auto ids = examples.ids(i);
    const auto counted = examples.counted(i);
    all.emplace_back(std::vector<int64_t>(ids.begin(), ids.end()),
                     std::vector<bool>(counted.begin(), counted.end()));
  }
  return all;
}

// Returns the error message of the call without its first part, the file's path.
template <typename Call>
std::string message_about(const std::string& name, const Call& call) {
  std::string message = message_of(call);
  const std::string path = (kTables / name).string();
  REQUIRE(starts_with(message, path));
  return message.substr(path.size());
}

struct ChatModel {
  ChatModel() {
    fs::copy_file(fs::path(test::kDataFolder) / "tokenizers" / "smollm.json",
                  folder / "tokenizer.json");
    write_file_atomically(folder / "chat_template.jinja", kShowsAll);
  }
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("documents of Parquet files have the tokens of JSON Lines") {
  const std::vector<int64_t> expected = text_tokens(spec_of_file("text", kTables / "text.jsonl"));
  CHECK(expected.size() > 2000);
  for (const char* name :
       {"text-plain", "text-snappy", "text-gzip", "text-zstd", "text-fallback"}) {
    INFO(name);
    DataSpec spec = spec_of_file("text", kTables / cat(name, ".parquet"));
    CHECK(text_tokens(spec) == expected);
    spec.threads = 3;
    CHECK(text_tokens(spec) == expected);
    CHECK_THAT(open_token_source(spec)->description(), Catch::Contains(", 37 documents, "));
  }
}

TEST_CASE("conversations of Parquet files have the tokens of JSON Lines") {
  const ChatModel model;
  for (const LossOn loss_on : {LossOn::kAssistant, LossOn::kAll}) {
    DataSpec spec = spec_of_file("chat", kTables / "chat.jsonl");
    spec.tokenizer = (model.folder / "tokenizer.json").string();
    spec.loss_on = loss_on;
    const auto expected = conversations(spec);
    CHECK(expected.size() == 24);
    for (const char* name : {"chat-snappy", "chat-v2", "chat-old-lists"}) {
      INFO(name);
      spec.paths = {kTables / cat(name, ".parquet")};
      spec.threads = 3;
      CHECK(conversations(spec) == expected);
    }
  }
}

TEST_CASE("token ids of Parquet files are those of JSON Lines") {
  DataSpec spec = spec_of_file("chat", kTables / "ids.jsonl");
  const auto expected = conversations(spec);
  CHECK(expected.size() == 40);
  for (const char* name : {"ids-snappy.parquet", "ids-delta.parquet"}) {
    spec.paths = {kTables / name};
    CHECK(conversations(spec) == expected);
  }
}

TEST_CASE("errors in a Parquet file name the row, as those in JSON Lines name the line") {
  // The third document is the first with a byte that is not below the vocabulary's size.
  const auto of_text = [](const std::string& name) {
    return message_about(name, [&] {
      DataSpec spec = spec_of_file("text", kTables / name);
      spec.eod_token.reset();
      spec.vocab_size = 128;
      text_tokens(spec);
    });
  };
  CHECK_THAT(of_text("text.jsonl"), Catch::StartsWith(":3: the tokenizer (bytes) gives the id "));
  CHECK(of_text("text-snappy.parquet") == of_text("text.jsonl"));
  const auto of_ids = [](const std::string& name, int64_t vocab_size, bool renamed) {
    return message_about(name, [&] {
      DataSpec spec = spec_of_file("chat", kTables / name);
      spec.vocab_size = vocab_size;
      if (renamed) spec.columns = {{"input_ids", "labels"}, {"labels", "input_ids"}};
      conversations(spec);
    });
  };
  CHECK_THAT(of_ids("ids.jsonl", 59, false), Catch::StartsWith(":9: the token id 59 is outside"));
  CHECK(of_ids("ids-delta.parquet", 59, false) == of_ids("ids.jsonl", 59, false));
  CHECK_THAT(of_ids("ids.jsonl", 100, true), Catch::StartsWith(":1: label 0 is 0, but must be"));
  CHECK(of_ids("ids-snappy.parquet", 100, true) == of_ids("ids.jsonl", 100, true));
  const auto without_text = [](const std::string& name) {
    return message_about(name, [&] { text_tokens(spec_of_file("text", kTables / name)); });
  };
  CHECK(without_text("ids-snappy.parquet") == ":1: \"text\" is missing or not a string");
  CHECK(without_text("ids.jsonl") == without_text("ids-snappy.parquet"));
}

TEST_CASE("Parquet files are prepared") {
  const TemporaryFolder folder;
  DataSpec spec = spec_of_file("text", kTables / "text-snappy.parquet");
  const std::vector<int64_t> expected = text_tokens(spec);
  spec.prepared = folder / "prepared";
  CHECK(prepare(spec).documents == 37);
  const auto source = open_prepared_text(spec);
  REQUIRE(source != nullptr);
  std::vector<int64_t> tokens(static_cast<size_t>(source->size()));
  source->read(0, tokens);
  CHECK(tokens == expected);
  spec = spec_of_file("chat", kTables / "ids-snappy.parquet");
  spec.prepared = folder / "prepared";
  CHECK(prepare(spec).documents == 40);
  CHECK(read_prepared_chat(spec)->tokens() == prepare(spec).tokens);
}

TEST_CASE("rows come in pieces, with the place in the file") {
  const DataFile file(kTables / "text-snappy.parquet", "text");
  CHECK(file.is_table());
  const std::vector<std::string> keys = {"id"};
  int64_t pieces = 0, rows = 0, done = 0;
  for_each_objects(file, keys, 20, [&](const JsonObjects& objects) {
    ++pieces;
    CHECK(objects.file_bytes > done);
    done = objects.file_bytes;
    objects.for_each([&](const Json& object, const std::string& where) {
      CHECK(object == Json{{"id", rows}});
      CHECK(ends_with(where, cat("text-snappy.parquet:", ++rows)));
    });
  });
  CHECK(rows == 37);
  CHECK(pieces == 13);  // three rows each; the last piece has one row
  CHECK(done == static_cast<int64_t>(fs::file_size(file.path())));
}

TEST_CASE("rows without a wanted column come in pieces, too") {
  const TemporaryFolder folder;
  parquet_bytes::File written;
  written.schema = {parquet_bytes::leaf("text", 6, 0, 0)};
  written.rows = 200'000;
  write_file_atomically(folder / "a.parquet", written.whole());
  const DataFile file(folder / "a.parquet", "text");
  const std::vector<std::string> keys = {"other"};
  int64_t pieces = 0, rows = 0;
  for_each_objects(file, keys, 1 << 20, [&](const JsonObjects& objects) {
    ++pieces;
    objects.for_each([&](const Json& object, const std::string&) {
      if (object == Json::object()) ++rows;
    });
  });
  CHECK(rows == 200'000);
  CHECK(pieces == 4);
}

TEST_CASE("encrypted Parquet files are refused, and texts with their first letters are read") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a.txt", "PARE 1234 PARE");
  CHECK_THAT(message_of([&] { text_tokens(spec_of_file("text", folder / "a.txt")); }),
             Catch::EndsWith("a.txt: the Parquet file is encrypted"));
  write_file_atomically(folder / "b.txt", "PARENTS");
  CHECK(text_tokens(spec_of_file("text", folder / "b.txt")).size() == 8);
}

TEST_CASE("JSON that is nested deeply is refused before anything visits it recursively") {
  const TemporaryFolder folder;
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  write_file_atomically(folder / "a.jsonl", "{\"text\": \"a\"}\n{\"messages\": " + deep + "}\n");
  write_file_atomically(folder / "a.json", "[{\"text\": \"a\", \"b\": " + deep + "}]");
  for (const char* name : {"a.jsonl", "a.json"}) {
    CHECK_THAT(message_of([&] { text_tokens(spec_of_file("text", folder / name)); }),
               Catch::EndsWith("the JSON is nested deeper than 100 levels"));
  }
}

TEST_CASE("Parquet files that are no data of their kind are refused") {
  const TemporaryFolder folder;
  constexpr std::string_view kPacked(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x0b\x70\x0c\x32\xac\x00\x02\x00\xc3\xd1\x2e\x42\x08"
      "\x00\x00\x00",
      26);
  write_file_atomically(folder / "a.parquet.gz", kPacked);
  CHECK_THAT(message_of([&] { text_tokens(spec_of_file("text", folder / "a.parquet.gz")); }),
             Catch::EndsWith("a.parquet.gz: this is an Apache Parquet file, not UTF-8 text"));
  DataSpec spec = spec_of_file("tokens", kTables / "ids-snappy.parquet");
  CHECK_THAT(message_of([&] { open_token_source(spec); }),
             Catch::EndsWith("this is an Apache Parquet file, not headerless integers"));
}

}  // namespace am::data
