#include "am/data/file_format.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"

using namespace am;
using data::shape_of;
using data::TextShape;

TEST_CASE("a document a line is seen by the name and by the text") {
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  for (const char* name : {"a.jsonl", "A.JSONL", "a.ndjson", "data.json", "part-0", "a.txt"}) {
    INFO(name);
    CHECK(shape_of(name, lines) == TextShape::kJsonLines);
  }
  CHECK(shape_of("a.jsonl", "no JSON, which the reader names by its line") ==
        TextShape::kJsonLines);
  CHECK(shape_of("data.json", "\n  {\"text\": \"one\"}") == TextShape::kJsonLines);
}

TEST_CASE("text stays text") {
  for (const char* text :
       {"", "\n", "Once upon a time.", "{ braces } of a program", "[1] a footnote",
        "{\"name\": \"no document\"}\n", "[[nodiscard]] int f();"}) {
    INFO(text);
    CHECK(shape_of("a.txt", text) == TextShape::kText);
  }
}

TEST_CASE("an array of objects is seen by its beginning") {
  for (const char* name : {"a.json", "array.txt"}) {
    CHECK(shape_of(name, "[\n  {\"text\": \"one\"}]") == TextShape::kJsonArray);
  }
}

TEST_CASE("JSON of another shape is not trained on as text") {
  CHECK_THROWS_WITH(shape_of("a.json", "{\n  \"text\": \"one\"\n}"),
                    Catch::Contains("a.json: this is JSON, but neither an array of objects"));
  CHECK_THROWS_AS(shape_of("a.json", "[1, 2]"), Error);
}
