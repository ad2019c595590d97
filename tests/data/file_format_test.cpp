#include "am/data/file_format.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"

using namespace am;
using data::is_json_lines;

TEST_CASE("a document a line is seen by the name and by the text") {
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  for (const char* name : {"a.jsonl", "A.JSONL", "a.ndjson", "data.json", "part-0", "a.txt"}) {
    INFO(name);
    CHECK(is_json_lines(name, lines));
  }
  CHECK(is_json_lines("a.jsonl", "no JSON, which the reader names by its line"));
  CHECK(is_json_lines("data.json", "\n  {\"text\": \"one\"}"));
}

TEST_CASE("text stays text") {
  for (const char* text :
       {"", "\n", "Once upon a time.", "{ braces } of a program", "[1] a footnote",
        "{\"name\": \"no document\"}\n", "[[nodiscard]] int f();"}) {
    INFO(text);
    CHECK_FALSE(is_json_lines("a.txt", text));
  }
}

TEST_CASE("JSON of another shape is not trained on as text") {
  CHECK_THROWS_WITH(is_json_lines("array.txt", "[\n  {\"text\": \"one\"}]"),
                    Catch::Contains("array.txt: this is JSON, not text or JSON Lines"));
  CHECK_THROWS_AS(is_json_lines("a.json", "{\n  \"text\": \"one\"\n}"), Error);
  CHECK_THROWS_AS(is_json_lines("a.json", "[1, 2]"), Error);
}
