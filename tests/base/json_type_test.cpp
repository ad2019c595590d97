#include "am/base/json_type.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"

using namespace am;

namespace {

Json schema(std::string_view notation) {
  const JsonTypes types = parse_json_types(notation);
  return json_schema(types.type, types.names);
}

std::string outline(std::string_view notation) {
  const JsonTypes types = parse_json_types(notation);
  return json_outline(types.type, types.names);
}

}  // namespace

TEST_CASE("a JSON type becomes a JSON Schema") {
  CHECK(schema("any") == Json::object());
  CHECK(schema("integer") == Json{{"type", "integer"}});
  CHECK(schema("number | null") == Json::parse(R"({"type": ["number", "null"]})"));
  CHECK(schema("'plan' | 'job'") == Json::parse(R"({"enum": ["plan", "job"]})"));
  CHECK(schema("'all'") == Json::parse(R"({"const": "all"})"));
  CHECK(schema("[integer] | Node") == Json::parse(R"({"anyOf": [
    {"type": "array", "items": {"type": "integer"}}, {"$ref": "#/$defs/Node"}]})"));
  CHECK(schema("{ name:string,rank?: integer (of the part), boxes: [[integer]] }") ==
        Json::parse(R"({"type": "object", "properties": {
            "name": {"type": "string"},
            "rank": {"type": "integer", "description": "of the part"},
            "boxes": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}},
          "required": ["name", "boxes"], "additionalProperties": false})"));
  CHECK(schema("{step?: integer, *: string}") ==
        Json::parse(R"({"type": "object", "properties": {"step": {"type": "integer"}},
                        "additionalProperties": {"type": "string"}})"));
  CHECK(schema("{..Point, z: number}; Point = {x: number, y?: number}") ==
        schema("{x: number, y?: number, z: number}"));
  CHECK(schema("{}") ==
        Json::parse(R"({"type": "object", "properties": {}, "additionalProperties": false})"));
}

TEST_CASE("a JSON type is told in a line") {
  CHECK(outline("integer") == "");
  CHECK(outline("{}") == "");
  CHECK(outline("{path: string, files: [string], at?: integer | null (null: unknown)}") ==
        "path, files, at? (null: unknown)");
  CHECK(outline("{ranks: [{rank: integer, at: {row: integer} | null}] (all of them)}") ==
        "ranks [{rank, at {row}}] (all of them)");
  CHECK(outline("{a: integer} | {b: [{c: integer}]}") == "a; or b [{c}]");
  CHECK(outline("{by: 'sums' | 'values' | null (null: none), as: 'it' | 'is'}") ==
        "by (sums, values; null: none), as (it, is)");
  CHECK(outline("{groups: {*: [integer]} (by name)}") == "groups (by name)");
  CHECK(outline("{tree: Node}; Node = {name: string, children: [Node]}") ==
        "tree {name, children [{..}]}");
  CHECK(outline("One | {all: [One], one: One}; One = {name: string}") ==
        "name; or all [{..}], one {..}");
  CHECK(outline("{..Point, all: [{..Point, z: number}]}; Point = {x: number, y: number}") ==
        "x, y, all [{.., z}]");
  CHECK(outline("{tree: Node}") == "tree");
}

TEST_CASE("a JSON type that is written wrongly says where") {
  for (const char* wrong :
       {"", "{", "{a}", "{a: }", "{a: integer", "{a: integer (note}", "[integer", "integer integer",
        "whole", "'text", "{: integer}", "integer |", "any; Node", "any; = {}", "{.Point}",
        "{..point: string}"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_json_types(wrong), Error);
  }
  CHECK_THROWS_WITH(parse_json_types("{a: whole}"),
                    Catch::Contains("\"whole\" is not the name of a type"));
}
