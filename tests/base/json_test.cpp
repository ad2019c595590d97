#include "am/base/json.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/json_integer.h"

using namespace am;

TEST_CASE("objects keep the order of their keys") {
  Diagnostics found;
  const auto json = parse_json(R"({"b": 1, "a": [true, null]})", "f", found);
  REQUIRE(json);
  CHECK(found.empty());
  CHECK(dump_json(*json, -1) == R"({"b":1,"a":[true,null]})");
  CHECK(dump_json(*parse_sorted_json(R"({"b": 1, "a": 2})", "f", found), -1) == R"({"a":2,"b":1})");
}

TEST_CASE("a syntax error says where it is") {
  Diagnostics found;
  CHECK_FALSE(parse_json("{\n  \"größe\": 1,,\n}", "config.json", found));
  REQUIRE(found.items().size() == 1);
  const Diagnostic& error = found.items()[0];
  CHECK(error.rule == "json.syntax");
  CHECK(error.span.file == "config.json");
  CHECK(error.span.line == 2);
  CHECK(error.span.column == 14);
  CHECK(error.span.source == "  \"größe\": 1,,");
  CHECK(error.message.find("syntax error") == 0);
}

TEST_CASE("text that is no JSON is an error and never a crash") {
  for (const char* text : {"", " ", "{", "[1,", "\"abc", "{\"a\":}", "nul", "1 2", "\xff",
                           "{\"a\" 1}", "[1e999]", "\"\\ud800\""}) {
    Diagnostics found;
    CHECK_FALSE(parse_json(text, "f", found));
    CHECK(found.errors() == 1);
  }
}

TEST_CASE("NaN and Infinity are read as Python's json writes them") {
  Diagnostics found;
  const auto json = parse_json(
      R"({"a": NaN, "b": [Infinity,-Infinity ], "c": "NaN", "d": "number NaN", "e": "\"NaN", "f": -1})",
      "f", found);
  REQUIRE(json);
  CHECK(std::isnan(json->at("a").get<double>()));
  CHECK(json->at("b")[0].get<double>() == std::numeric_limits<double>::infinity());
  CHECK(json->at("b")[1].get<double>() == -std::numeric_limits<double>::infinity());
  CHECK(json->at("c") == "NaN");
  CHECK(json->at("d") == "number NaN");
  CHECK(json->at("e") == "\"NaN");
  CHECK(json->at("f") == -1);
  CHECK(parse_sorted_json("[NaN]", "f", found)->at(0).is_number_float());

  for (const auto& [text, column] : {std::pair{R"({"a": NaN, "b": -Infinity,, "c": 1})", 27},
                                     {"{NaN: 1}", 2},
                                     {"[NaNs]", 5},
                                     {"[--Infinity]", 3},
                                     {"[Infinit]", 2}}) {
    INFO(text);
    Diagnostics wrong;
    CHECK_FALSE(parse_json(text, "f", wrong));
    REQUIRE(wrong.items().size() == 1);
    CHECK(wrong.items()[0].span.column == column);
  }
}

TEST_CASE("brackets that nest very deep are an error") {
  Diagnostics found;
  CHECK_FALSE(parse_json(std::string(1000000, '['), "f", found));
  CHECK(found.errors() == 1);
  CHECK(parse_json("\"" + std::string(1000, '[') + "\"", "f", found));
}

TEST_CASE("a top-level key is found where it stands") {
  const char* text =
      "{\n  \"a\": {\"x\": 1},\n  \"x\" : [\"x\", \"\\\"x\"],\n  \"é\": 2, \"y\": 3}";
  const Span x = find_json_key(text, "f", "x");
  CHECK(x.line == 3);
  CHECK(x.column == 3);
  CHECK(x.length == 3);
  CHECK(x.source == "  \"x\" : [\"x\", \"\\\"x\"],");
  CHECK(find_json_key(text, "f", "y").column == 11);
  const Span none = find_json_key(text, "f", "z");
  CHECK(none.file == "f");
  CHECK(none.line == 0);
  CHECK(find_json_key("{\"a", "f", "a").line == 0);
  CHECK(find_json_key("\"a\\", "f", "a").line == 0);
}

TEST_CASE("what is dumped is always valid JSON") {
  Json json;
  json["nan"] = std::nan("");
  json["inf"] = std::numeric_limits<double>::infinity();
  json["bytes"] = "a\xff";
  CHECK(dump_json(json, -1) == "{\"nan\":null,\"inf\":null,\"bytes\":\"a\xEF\xBF\xBD\"}");
}

TEST_CASE("bytes that are not UTF-8 are escapes from which Python makes the bytes again") {
  const std::string path = "/a\xff\xc3\xa9\x9b\xe2\x82";
  Json json = {{"path", path}, {"list", {1, "b", Json::object()}}};
  json["k\xfe"] = Json::array();
  CHECK(dump_json_bytes(json, -1) ==
        "{\"path\":\"/a\\udcff\xc3\xa9\\udc9b\\udce2\\udc82\",\"list\":[1,\"b\",{}],"
        "\"k\\udcfe\":[]}");
  const Json plain = {{"a", {1, 2.5, nullptr}}, {"b\n", "\"\u00e9"}};
  for (const int indent : {-1, 1, 2})
    CHECK(dump_json_bytes(plain, indent) == dump_json(plain, indent));
  // Indentation and line breaks are equal with and without bytes that are not UTF-8.
  Json with = plain;
  with["c"] = "\xff";
  Json without = plain;
  without["c"] = "?";
  std::string text = dump_json_bytes(with, 1);
  text.replace(text.find("\\udcff"), 6, "?");
  CHECK(text == dump_json(without, 1));
}

TEST_CASE("a file that is no JSON object is named, in words of its own") {
  const auto problem = [](const std::string& text) {
    try {
      parse_json_object(text, "c.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(problem("{\"a\": 1}").empty());
  CHECK(problem("[1]") == "c.json: does not hold a JSON object");
  CHECK_THAT(problem("{\n  x"), Catch::StartsWith("c.json:2:3: not JSON: "));
  for (const char* text : {"", "x", "{\"a\"", "{\"a\": 1e999}", "[", "{]", "\xff"}) {
    CHECK_THAT(problem(text), !Catch::Contains("json.exception"));
  }
  try {
    Json{{"a", 1}}.at("a").get<std::string>();
  } catch (const JsonError& error) {
    CHECK(json_reason(error) == "type must be string, but is number");
    CHECK(first_line(error) == "type must be string, but is number");
  }
  CHECK(json_reason(std::runtime_error("as it is")) == "as it is");
}

TEST_CASE("diagnostics carry the agreed fields") {
  Diagnostics found;
  found.error("tp.heads", {"p.toml", 3, 5, 1, "x"}, "wrong", "1 or 2");
  found.warning("x.y", {}, "hm");
  CHECK(dump_json(to_json(found), -1) ==
        R"([{"rule":"tp.heads","severity":"error","file":"p.toml","line":3,"column":5,)"
        R"("message":"wrong","help":"1 or 2"},{"rule":"x.y","severity":"warning","file":"",)"
        R"("line":null,"column":null,"message":"hm","help":""}])");
}

TEST_CASE("a whole number is one of 64 bits, or refused") {
  const auto read = [](const std::string& text) { return integer_of(Json::parse(text)); };
  CHECK(read("9223372036854775807") == INT64_MAX);
  CHECK(read("-9223372036854775808") == INT64_MIN);
  for (const std::string text : {"9223372036854775808", "1e300", "2.0", "\"2\"", "true", "null"}) {
    INFO(text);
    CHECK_THROWS_AS(read(text), Json::type_error);
  }
}
