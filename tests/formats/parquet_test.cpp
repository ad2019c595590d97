// Tests reading the rows of Parquet files that pyarrow wrote (scripts/fixtures/make_parquet.py).
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/formats/parquet/table.h"
#include "support/folders.h"
#include "support/message_of.h"
#include "support/parquet_bytes.h"

namespace am::formats::parquet {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(test::kDataFolder) / "parquet";

// Returns the rows of a file as lines of JSON, with the columns `names`, or with all columns if
// `names` is empty.
std::vector<std::string> rows_of(std::string_view content, std::vector<std::string> names = {}) {
  const Table table("a.parquet", parquet_bytes::view_of(content));
  if (names.empty()) names = table.columns();
  std::vector<std::string> rows;
  table.for_each_row(names, [&](const Row& row) {
    CHECK(row.number == static_cast<int64_t>(rows.size()) + 1);
    rows.push_back(row.object.dump());
  });
  CHECK(static_cast<int64_t>(rows.size()) == table.rows());
  return rows;
}

std::string file_named(const std::string& name) { return read_file(kFolder / name); }

// Returns the lines of the .jsonl file `name`, formatted as rows_of() formats rows.
std::vector<std::string> lines_of(const std::string& name) {
  std::vector<std::string> lines;
  std::istringstream text(file_named(name));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line).dump());
  return lines;
}

}  // namespace

TEST_CASE("rows equal the JSON Lines that Hugging Face's datasets write") {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    if (!ends_with(name, ".parquet") || starts_with(name, "refused")) continue;
    INFO(name);
    const std::string kind = name.substr(0, name.find('-'));
    CHECK(rows_of(read_file(entry.path())) == lines_of(kind + ".jsonl"));
    ++files;
  }
  CHECK(files == 13);
}

TEST_CASE("only the columns that are asked for are read") {
  const std::string content = file_named("text-snappy.parquet");
  CHECK(rows_of(content, {"id"}).front() == "{\"id\":0}");
  CHECK(rows_of(content, {"other", "text"})[1] == "{\"text\":\"\"}");
  CHECK(rows_of(content, {"other"}).back() == "{}");
  // A damaged page of the column "id", whose data are at the front of the file, does not affect
  // reads of another column.
  std::string broken = content;
  const size_t first_page = 4;
  broken[first_page] = '\xff';
  CHECK(rows_of(broken, {"text"}) == rows_of(content, {"text"}));
  CHECK_THROWS_AS(rows_of(broken, {"id"}), Error);
}

TEST_CASE("types, codecs and encodings that are not read are named") {
  const std::string content = file_named("refused.parquet");
  CHECK(rows_of(content, {"text"}) == std::vector<std::string>{"{\"text\":\"read\"}"});
  const auto refusal = [&](const std::string& column) {
    return message_of([&] { rows_of(content, {column}); });
  };
  CHECK(refusal("timestamp") == "a.parquet: column \"timestamp\" is a timestamp");
  CHECK(refusal("date") == "a.parquet: column \"date\" is a date");
  CHECK(refusal("time") == "a.parquet: column \"time\" is a time");
  CHECK(refusal("decimal") == "a.parquet: column \"decimal\" is a decimal number");
  CHECK(refusal("fixed") == "a.parquet: column \"fixed\" is FIXED_LEN_BYTE_ARRAY");
  CHECK(refusal("half") == "a.parquet: column \"half\" is a float of 16 bits");
  CHECK(refusal("map") == "a.parquet: column \"map\" is a map");
  CHECK(refusal("nested") == "a.parquet: column \"nested.at\" is a timestamp");
  CHECK_THAT(refusal("brotli"),
             Catch::StartsWith("a.parquet:1: column \"brotli\", page at byte ") &&
                 Catch::Contains(": the column is compressed by Brotli, which"));
  CHECK_THAT(refusal("lz4"), Catch::Contains("LZ4"));
  CHECK_THAT(
      refusal("split"),
      Catch::Contains("values of DOUBLE in the encoding BYTE_STREAM_SPLIT are not supported"));
  CHECK(message_of([&] { rows_of(file_named("refused-int96.parquet")); }) ==
        "a.parquet: column \"int96\" is INT96");
}

TEST_CASE("a file that was cut or damaged anywhere is an error or has rows, and never more") {
  for (const char* name :
       {"text-plain", "text-gzip", "text-fallback", "ids-delta", "chat-v2", "values-v2"}) {
    const std::string content = file_named(cat(name, ".parquet"));
    INFO(name);
    const size_t rows = rows_of(content).size();
    for (size_t size = 0; size < content.size(); ++size) {
      const std::string cut = content.substr(0, size);
      CHECK_THROWS_AS(Table("a.parquet", parquet_bytes::view_of(cut)), Error);
    }
    size_t errors = 0;
    const size_t step = content.size() > 3000 ? 3 : 1;
    for (size_t i = 0; i < content.size(); i += step) {
      std::string damaged = content;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
      try {
        const size_t left = rows_of(damaged).size();
        if (left > rows) FAIL_CHECK(cat("byte ", i, " gives ", left, " rows"));
      } catch (const Error& error) {
        ++errors;
        if (error.kind() != ErrorKind::kFormat) FAIL_CHECK(error.what());
      }
    }
    CHECK(errors > 300);
  }
}

TEST_CASE("a checksum that does not match is an error that names the page") {
  std::string content = file_named("text-gzip.parquet");
  const std::string before = "\x1f\x8b\x08";  // first bytes of a page's gzip data
  const size_t at = content.rfind(before);
  REQUIRE(at != std::string::npos);
  content[at + 12] = static_cast<char>(content[at + 12] ^ 1);
  CHECK_THAT(message_of([&] { rows_of(content, {"text"}); }),
             Catch::StartsWith("a.parquet:1: column \"text\", page at byte ") &&
                 Catch::EndsWith(": the page's checksum does not match its bytes"));
}

}  // namespace am::formats::parquet
