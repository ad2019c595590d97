// Tests the decompression of files, and the splitting of JSON files into objects.
#include "am/data/data_file.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/data/json_lines.h"
#include "support/temporary_folder.h"

namespace am::data {
namespace {

// Compressed forms of kLines (kGzip, kZstd), and of kMore as a further gzip member or zstd frame.
constexpr std::string_view kGzip(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\x50\x4a\xc9\x4f"
    "\x2e"
    "\xcd\x4d\xcd\x2b\x51\x30\x50\xaa\xe5\xaa\xc6\x14\x36\xc4\x2e\x6c\x04\x14\x06\x00\x3e\xb2\x36"
    "\xc2"
    "\x45\x00\x00\x00",
    52);
constexpr std::string_view kGzipMember(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\x50\x4a\x4c\x4f"
    "\xcc"
    "\xcc\x53\xaa\xe5\x02\x00\x5d\x2d\x95\x32\x12\x00\x00\x00",
    38);
constexpr std::string_view kZstd(
    "\x28\xb5\x2f\xfd\x20\x45\x25\x01\x00\xe0\x7b\x22\x74\x65\x78\x74\x22\x3a\x20\x22\x64\x6f\x63"
    "\x75"
    "\x6d\x65\x6e\x74\x20\x30\x22\x7d\x0a\x31\x32\x22\x7d\x0a\x02\x00\x40\x11\x35\x99\x4d",
    45);
constexpr std::string_view kZstdFrame(
    "\x28\xb5\x2f\xfd\x24\x12\x91\x00\x00\x7b\x22\x74\x65\x78\x74\x22\x3a\x20\x22\x61\x67\x61\x69"
    "\x6e"
    "\x22\x7d\x0a\x2b\x9f\xfe\x3a",
    31);

const std::string kLines =
    "{\"text\": \"document 0\"}\n{\"text\": \"document 1\"}\n{\"text\": \"document 2\"}\n";
const std::string kMore = "{\"text\": \"again\"}\n";

std::string text_of(const DataFile& file) {
  std::string all;
  file.for_each_block([&](const DataBlock& block) { all += block.text; });
  CHECK(file.whole().text == all);
  return all;
}

struct Files {
  TemporaryFolder folder;

  DataFile open(const std::string& name, std::string_view content) const {
    write_file_atomically(folder / name, content);
    return DataFile(folder / name, "text");
  }
};

}  // namespace

TEST_CASE("gzip and Zstandard files are decompressed") {
  const Files files;
  CHECK(text_of(files.open("a.jsonl", kLines)) == kLines);
  const DataFile gzip = files.open("a.jsonl.gz", kGzip);
  CHECK(text_of(gzip) == kLines);
  CHECK(gzip.name().filename() == "a.jsonl");
  CHECK(text_of(files.open("a", cat(kGzip, kGzipMember))) == kLines + kMore);
  CHECK(text_of(files.open("a.zst", kZstd)) == kLines);
  CHECK(text_of(files.open("a.zst", cat(kZstd, kZstdFrame))) == kLines + kMore);
}

TEST_CASE("damaged and truncated files are errors, at every length") {
  const Files files;
  for (const std::string_view whole : {kGzip, kZstd}) {
    for (size_t size = 5; size < whole.size(); ++size) {
      INFO(size);
      const DataFile file = files.open("a", whole.substr(0, size));
      CHECK_THROWS_AS(file.whole(), Error);
    }
  }
  std::string broken(kGzip);
  broken[broken.size() - 6] ^= 1;  // in the checksum
  CHECK_THROWS_WITH(files.open("a", broken).whole(), Catch::EndsWith("the gzip file is damaged"));
  CHECK_THROWS_WITH(files.open("a", ""), Catch::EndsWith("the file is empty"));
  CHECK_THROWS_WITH(files.open("a", "ARROW1xx"), Catch::Contains("Apache Arrow"));
}

TEST_CASE("objects are read from lines and from arrays, in pieces") {
  const Files files;
  const auto objects_of = [&](const std::string& content, int64_t bytes) {
    std::vector<std::string> all;
    int64_t pieces = 0, done = 0;
    const DataFile file = files.open("a.json", content);
    for_each_objects(file, {}, bytes, [&](const JsonObjects& objects) {
      ++pieces;
      CHECK(objects.file_bytes > done);
      done = objects.file_bytes;
      objects.for_each([&](const Json& object, const std::string& where) {
        all.push_back(cat(where.substr(where.rfind('/') + 1), " ", object.dump()));
      });
    });
    all.push_back(std::to_string(pieces));
    return all;
  };
  CHECK(objects_of("{\"a\": 1}\n\n[2]\n", 100) ==
        std::vector<std::string>{"a.json:1 {\"a\":1}", "a.json:3 [2]", "1"});
  CHECK(objects_of("1\n2\n3", 1) ==
        std::vector<std::string>{"a.json:1 1", "a.json:2 2", "a.json:3 3", "3"});
  CHECK(objects_of(" [1, {\"b\": 2}]", 1) ==
        std::vector<std::string>{"a.json[0] 1", "a.json[1] {\"b\":2}", "1"});
  CHECK_THROWS_WITH(objects_of("1\n{", 1), Catch::EndsWith("a.json:2: the line is not JSON"));
  CHECK_THROWS_WITH(objects_of("[1", 1), Catch::EndsWith("a.json: this is not JSON"));
}

}  // namespace am::data
