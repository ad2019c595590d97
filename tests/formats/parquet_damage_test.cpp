// Tests Parquet files with false sizes, counts and offsets.
#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/formats/parquet/table.h"
#include "support/parquet_bytes.h"

namespace am::formats::parquet {
namespace {

using namespace parquet_bytes;

// Returns a file with a column of texts and one row.
File file_of_text() {
  File file;
  file.schema = {leaf("text", 6, 0, 0)};
  file.pages = Page{.bytes = plain("hello")}.whole();
  return file;
}

// Returns the error message for a file, without the file's name. Returns "read" if the file's rows
// can be read.
std::string problem(const std::string& content) {
  const std::string prefix = "a.parquet:";
  try {
    const Table table("a.parquet", view_of(content));
    table.for_each_row(table.columns(), [](const Row&) {});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    CHECK_FALSE(error.hint().empty());
    const std::string what = error.what();
    REQUIRE(starts_with(what, prefix));
    return std::string(trim(what.substr(prefix.size())));
  }
  return "read";
}
std::string problem(const File& file) { return problem(file.whole()); }

// Returns the error message for the file with `page` as its only page.
std::string problem(File file, const Page& page) {
  file.pages = page.whole();
  return problem(file);
}

const std::string kInPage = "1: column \"text\", page at byte 4: ";

}  // namespace

TEST_CASE("footers that lie are told apart") {
  CHECK(problem(file_of_text()) == "read");
  CHECK(problem("PAR1") == "the Parquet file has no footer at its end");
  CHECK(problem("PAR1" + fixed32(9) + "PAR1") ==
        "the Parquet footer would have 9 bytes, but the file has 12");
  CHECK(problem("PAR1" + fixed32(0) + "PAR1") == "the Parquet footer: the bytes end early");
  CHECK(problem("PARE" + fixed32(0) + "PARE") == "the Parquet file is encrypted");
  File file = file_of_text();
  file.rows = -7;
  file.group_rows = file.values = 1;
  CHECK(problem(file) == "the Parquet footer: a count or size is negative: -7");
  file.rows = 2;
  CHECK(problem(file) == "the row groups have fewer rows than the file");
  file.group_rows = int64_t{1} << 60;
  CHECK(problem(file) == "the row groups have more rows than the file");
  file = file_of_text();
  file.offset = int64_t{1} << 40;
  CHECK(problem(file) == "1: column \"text\": the column's bytes are behind the end of the file");
  file = file_of_text();
  file.stored = INT64_MAX;
  CHECK(problem(file) == "1: column \"text\": the column's bytes are behind the end of the file");
  file = file_of_text();
  file.physical = 1;
  CHECK(problem(file) == "1: column \"text\": the type differs from that in the schema");
  file = file_of_text();
  file.schema.push_back(leaf("second", 6, 0));
  CHECK(problem(file) == "the schema has elements outside its tree");
  file.schema = {};
  CHECK(problem(file) == "the schema ends early");
}

TEST_CASE("deep values and schemas do not overflow the stack") {
  File file = file_of_text();
  file.schema.clear();
  for (int i = 0; i < 100'000; ++i) {
    file.schema.push_back(Struct().number(3, 0).text(4, "s").number(5, 1));
  }
  file.schema.push_back(leaf("text", 6, 0));
  CHECK(problem(file) == "the schema is nested too deeply");
  // The footer contains a struct in an unknown field, which contains another one in an unknown
  // field, and so on.
  const std::string footer(100'000, '\x6c');
  CHECK(problem("PAR1" + footer + fixed32(static_cast<uint32_t>(footer.size())) + "PAR1") ==
        "the Parquet footer: values are nested too deeply");
  file = file_of_text();
  file.schema = {leaf("text", 6, 0, /*converted=*/19)};
  const std::string deep = std::string(101, '[') + std::string(101, ']');
  CHECK(problem(file, {.bytes = plain(deep)}) == kInPage + "a JSON value is nested too deeply");
  CHECK(problem(file, {.bytes = plain("{")}) == kInPage + "a value of the type JSON is not JSON");
}

TEST_CASE("pages that lie are told apart") {
  const File file = file_of_text();
  CHECK(problem(file, {.bytes = plain("\xff")}) == kInPage + "a text is not UTF-8");
  CHECK(problem(file, {.bytes = fixed32(6) + "hello"}) == kInPage + "the bytes end early");
  CHECK(problem(file, {.bytes = plain("a"), .values = 0}) == kInPage + "the pages lack 1 values");
  CHECK(problem(file, {.bytes = plain("a"), .values = 2}) ==
        kInPage + "the pages have more values than the column");
  CHECK(problem(file, {.bytes = plain("a"), .stored = 1'000}) ==
        kInPage + "the page would have 1000 bytes, but 5 are left in its column");
  // Page writes the true size if `stored` is negative.
  CHECK(problem(file, {.bytes = plain("a"), .stored = -7'000'000}) == "read");
  CHECK(problem(file, {.bytes = plain("a"), .unpacked = 6}) ==
        kInPage + "the sizes in the page header contradict each other");
  CHECK(problem(file, {.bytes = plain("a"), .encoding = 8}) ==
        kInPage + "the page needs a dictionary, which is missing");
  CHECK(problem(file, {.bytes = plain("a"), .encoding = 700}) ==
        kInPage + "values of BYTE_ARRAY in the encoding number 700 are not supported");
  CHECK(problem(file, {.bytes = plain("a"), .type = 9}) ==
        kInPage + "the page has the unknown type 9");
  File more = file;
  more.rows = 2;
  more.values = 1;
  CHECK(problem(more) == "2: column \"text\" has fewer rows than its row group");
  more.rows = 1;
  more.values = 2;
  more.pages += more.pages;
  CHECK(problem(more) == "2: column \"text\" has more rows than its row group");
}

TEST_CASE("dictionaries that lie are told apart") {
  File file = file_of_text();
  const Page dictionary = {.bytes = plain("a"), .type = 2};
  const auto with = [&](const Page& first, const std::string& indices) {
    file.pages = first.whole() + Page{.bytes = indices, .encoding = 8}.whole();
    const std::string found = problem(file);
    const size_t colon = found.rfind(": ");
    return colon == std::string::npos ? found : found.substr(colon + 2);
  };
  const std::string run_of_one = std::string("\x01") + varint(1 << 1);
  CHECK(with(dictionary, run_of_one + '\0') == "read");
  CHECK(with(dictionary, std::string(1, '\0')) == "read");  // indices of zero bits
  CHECK(with(dictionary, run_of_one + '\1') == "the index 1 is outside a dictionary of 1");
  CHECK(with(dictionary, "\x21") == "an index has more than 32 bits");
  CHECK(with(dictionary, "\x01") == "the bytes end early");
  CHECK(with({.bytes = plain("a"), .values = 2, .type = 2}, "") == "the bytes end early");
  CHECK(with({.bytes = "", .values = INT64_MAX, .type = 2}, "") ==
        cat("the dictionary has ", INT64_MAX, " values, more than 2^24"));
  file.pages = dictionary.whole() + dictionary.whole();
  CHECK_THAT(problem(file), Catch::EndsWith("the column has two dictionaries"));
}

TEST_CASE("sizes that compressed bytes cannot have are refused before memory is allocated") {
  File file = file_of_text();
  for (const int64_t codec : {1, 2, 6}) {
    file.codec = codec;
    CHECK(problem(file, {.bytes = plain("a"), .unpacked = 999'999'999}) ==
          kInPage + "the page's 5 bytes cannot decompress to 999999999");
    CHECK(problem(file, {.bytes = plain("a"), .unpacked = int64_t{1} << 40}) ==
          kInPage + "the page would have 1099511627776 bytes, over 1 GiB");
    CHECK_THAT(problem(file, {.bytes = plain("a"), .unpacked = 50}), Catch::StartsWith(kInPage));
  }
}

TEST_CASE("the gzip data of a page may have several members") {
  constexpr std::string_view kMembers(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x63\x65\x60\x60\x00\x00\x2e\x2f\x9a\x16\x04"
      "\x00\x00\x00\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86"
      "\xa6\x10\x36\x05\x00\x00\x00",
      49);  // two members: the length and the text in plain("hello")
  File file = file_of_text();
  file.codec = 2;
  CHECK(problem(file, {.bytes = std::string(kMembers), .unpacked = 9}) == "read");
  CHECK(problem(file, {.bytes = std::string(kMembers.substr(0, 40)), .unpacked = 9}) ==
        kInPage + "the page's gzip data are damaged");
  CHECK(problem(file, {.bytes = std::string(kMembers), .unpacked = 8}) != "read");
}

TEST_CASE("a row whose few bytes stand for billions of values is refused") {
  File file;
  file.schema = {leaf("text", 6, /*repetition=*/2)};
  file.values = uint32_t{1} << 31;
  const auto count = static_cast<uint64_t>(file.values);
  // The first value begins the row, and all later ones continue its list. All values are equal.
  const std::string first = varint(1 << 1) + '\0' + varint((count - 2) << 1) + '\1';
  file.pages = Page{.bytes = plain("a"), .type = 2}.whole() +
               Page{.bytes = fixed32(static_cast<uint32_t>(first.size())) + first +
                             levels(count - 2, 1) + std::string(1, '\0'),
                    .values = file.values,
                    .encoding = 8}
                   .whole();
  CHECK_THAT(problem(file), Catch::EndsWith("the row needs more than 512 MiB of memory"));
}

TEST_CASE("columns of one struct that contradict each other are refused") {
  // The leaf is optional and below an optional struct, so its definition levels are 0 to 2.
  File file;
  file.schema = {Struct().number(3, 1).text(4, "s").number(5, 1), leaf("a", 6, 1)};
  file.pages = Page{.bytes = levels(1, 1)}.whole();
  CHECK(problem(file) == "read");
  file.pages = Page{.bytes = levels(1, 3)}.whole();
  CHECK_THAT(problem(file), Catch::EndsWith("a level is too high"));
  file.pages = Page{.bytes = fixed32(99) + "x"}.whole();
  CHECK_THAT(problem(file), Catch::EndsWith("the bytes end early"));
  File repeated;
  repeated.schema = {leaf("text", 6, 2)};
  repeated.pages = Page{.bytes = levels(1, 1) + levels(1, 1) + plain("a")}.whole();
  CHECK(problem(repeated) == "1: column \"text\" does not begin with a new row");
}

}  // namespace am::formats::parquet
