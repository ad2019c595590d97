#include "am/base/json_cursor.h"

#include <catch2/catch.hpp>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am {
namespace {

// Returns the keys of the object, each followed by a semicolon. The numbers of a key "a" and the
// text of a key "t" stand between the key and the semicolon.
std::string read_back(const std::string& text) {
  JsonCursor json(text, "f");
  std::string out;
  std::string key;
  for (json.begin_object(); json.next_key(key);) {
    out += key;
    if (key == "a") {
      for (json.begin_array(); json.next_item();) out += cat(" ", json.natural());
    } else if (key == "t") {
      out += cat(" ", json.text());
    } else {
      json.skip();
    }
    out += ";";
  }
  json.end();
  return out;
}

std::string problem_of(const std::string& text) {
  try {
    return read_back(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    return error.what();
  }
}

}  // namespace

TEST_CASE("a cursor reads what was asked for and passes the rest by") {
  CHECK(read_back("{}") == "");
  CHECK(read_back(
            R"( { "a" : [ 1, 22 ,9223372036854775807 ] , "b":{"c":[{"d":"]}"}],"e":-1.5e3}} )") ==
        "a 1 22 9223372036854775807;b;");
  CHECK(read_back(R"({"a":[],"x":null,"y":true,"z":"a\"]","a":[3]})") == "a;x;y;z;a 3;");
  CHECK(read_back(R"({"t":"a\u00e9\n\"b","t":""})") == "t a\u00e9\n\"b;t ;");
}

TEST_CASE("what is no JSON, or something else, is named with its place") {
  CHECK_THAT(problem_of(""), Catch::StartsWith("f: byte 0: expected an object"));
  CHECK_THAT(problem_of("[1]"), Catch::Contains("expected an object"));
  CHECK_THAT(problem_of(R"({"a":[1 2]})"), Catch::Contains("byte 8: expected a comma"));
  CHECK_THAT(problem_of(R"({"a":[1,]})"), Catch::Contains("expected an integer"));
  CHECK_THAT(problem_of(R"({"a":[-1]})"), Catch::Contains("expected an integer"));
  CHECK_THAT(problem_of(R"({"a":[1.5]})"), Catch::Contains("expected an integer"));
  CHECK_THAT(problem_of(R"({"a":[9223372036854775808]})"), Catch::Contains("larger than 2^63"));
  CHECK_THAT(problem_of(R"({"a" [1]})"), Catch::Contains("expected a colon"));
  CHECK_THAT(problem_of(R"({"a":[1)"), Catch::Contains("expected a comma"));
  CHECK_THAT(problem_of(R"({"b":{"c":1)"), Catch::Contains("the value is cut off"));
  CHECK_THAT(problem_of(R"({"b":})"), Catch::Contains("expected a value"));
  CHECK_THAT(problem_of(R"({"b)"), Catch::Contains("the string is not closed"));
  CHECK_THAT(problem_of(R"({"t":"\u12"})"), Catch::Contains("escape"));
  CHECK_THAT(problem_of("{} {}"), Catch::Contains("text follows the first value"));
  // A million opening brackets are skipped without recursion.
  CHECK_THAT(problem_of("{\"b\":" + std::string(1'000'000, '[')),
             Catch::Contains("the value is cut off"));
}

}  // namespace am
