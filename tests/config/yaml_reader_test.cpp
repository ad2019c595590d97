// Tests read_yaml with the YAML forms that recipes use, and with forms that are refused.
#include "am/config/yaml_reader.h"

#include <catch2/catch.hpp>
#include <limits>

#include "am/base/text.h"
#include "am/frameworks/source.h"

using namespace am;
using namespace am::config;
using namespace am::frameworks;

namespace {

config::Value read(const std::string& text) {
  Diagnostics found;
  const auto value = read_yaml(text, "a.yaml", found);
  CAPTURE(text, found.empty() ? "" : found.items().front().message);
  REQUIRE(value.has_value());
  return *value;
}

std::string json_of(const std::string& text) { return dump_json(to_json(read(text)), -1); }

std::string refusal(const std::string& text) {
  Diagnostics found;
  CHECK_FALSE(read_yaml(text, "a.yaml", found).has_value());
  REQUIRE(found.items().size() == 1);
  return found.items().front().message;
}

}  // namespace

TEST_CASE("YAML: words are what PyYAML makes of them", "[exchange]") {
  CHECK(json_of("a: yes\nb: off\nc: ~\nd: 0x10\ne: 1_000\nf: 1e-4\ng: 'yes'\nh: no way\ni: .5\n") ==
        R"({"a":true,"b":false,"d":16,"e":1000,"f":0.0001,"g":"yes","h":"no way","i":0.5})");
  CHECK(json_of("a: [1, null, {b: x}]\nc:\n- 1\n-\n- d: 2\n") ==
        R"({"a":[1,"null",{"b":"x"}],"c":[1,"null",{"d":2}]})");
  CHECK(json_of("") == "{}");
  CHECK(json_of("---\n# nothing\n") == "{}");
  CHECK(json_of("a: NO\nb: ON\nc: +7\nd: +-7\ne: _1\nf: -1_0\ng: +-1.5\n") ==
        R"({"a":false,"b":true,"c":7,"d":"+-7","e":"_1","f":-10,"g":"+-1.5"})");
  CHECK(json_of("a: 1.0e-400\n") == R"({"a":0.0})");
  const config::Value root = read("a: -1.0e+400\n");
  CHECK(root.find("a")->value.number == -std::numeric_limits<double>::infinity());
}

TEST_CASE("YAML: text over several lines", "[exchange]") {
  CHECK(json_of("a: |\n  one\n  two\nb: >-\n  one\n  two\nc: one\n  two\nd: \"one\n  two\"\n") ==
        R"({"a":"one\ntwo\n","b":"one two","c":"one two","d":"one two"})");
}

TEST_CASE("YAML: an alias is its anchor's value, with the place where that is written",
          "[exchange]") {
  const config::Value root = read("base: &b {tp: 2, x: &x on}\na: *b\nc: *x\n");
  CHECK(dump_json(to_json(root), -1) ==
        R"({"base":{"tp":2,"x":true},"a":{"tp":2,"x":true},"c":true})");
  const config::Value& tp = root.find("a")->value.find("tp")->value;
  CHECK(tp.span.line == 1);
  CHECK(tp.span.column == 15);
}

TEST_CASE("YAML: a merge gives way to what the mapping says itself, null included", "[exchange]") {
  CHECK(json_of("x: &x {a: 1, b: 2, c: 3}\ny:\n  a: 7\n  <<: *x\n  c:\n") ==
        R"({"x":{"a":1,"b":2,"c":3},"y":{"a":7,"b":2}})");
  // If a list is merged, its first mapping takes precedence.
  CHECK(json_of("<<: [{a: 1}, {a: 2, b: 3}]\n") == R"({"a":1,"b":3})");
  CHECK(json_of("'<<': 1\n") == R"({"<<":1})");
}

TEST_CASE("YAML: aliases that multiply are refused, in the file's size of work", "[exchange]") {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string one = cat("*a", i - 1);
    bomb += cat("a", i, ": &a", i, " [", join(std::vector<std::string>(9, one), ", "), "]\n");
  }
  CHECK(refusal(bomb) == "anchors and aliases expand to more than 16384 values");
  // Aliases must not exceed the allowed nesting depth either.
  std::string deep = "a0: &a0 x\n";
  for (int i = 1; i < 10; ++i) {
    deep +=
        cat("a", i, ": &a", i, " ", std::string(10, '['), "*a", i - 1, std::string(10, ']'), "\n");
  }
  CHECK(refusal(deep) == "the values are nested more than 64 levels deep");
}

TEST_CASE("YAML: what is refused says why", "[exchange]") {
  CHECK(refusal("a: *b\n") == "the alias *b has no anchor &b before it");
  CHECK(refusal("a: !x 1\n") == "tags (!) are not supported");
  CHECK(refusal("a: 1\na: ~\n") == "the key \"a\" is written twice");
  CHECK(refusal("{[a]: 1}\n") == "a key is not text");
  CHECK(refusal("<<: 1\n") == "<< must be followed by a mapping or a list of mappings");
  CHECK(refusal("a: 1\n---\nb: 1\n") == "the file has a second document");
  CHECK(refusal("text\n") == "the document is one value, not a mapping");
  CHECK(refusal("a: [1\n").find("flow sequence") != std::string::npos);
}
