// Types of JSON values, written in a line: from one text come a JSON Schema for programs and an
// outline for people.
//
//   const JsonTypes types = parse_json_types(
//       "{ranks: [Rank], note?: string}; Rank = {rank: integer, bytes: integer | null (unknown)}");
//   json_schema(types.type, types.names)   // {"type": "object", "properties": {"ranks": {"type": ..
//   json_outline(types.type, types.names)  // "ranks [{rank, bytes (unknown)}], note?"
//
//   types  = type {";" Name "=" type}
//   type   = one {"|" one}
//   one    = "string" | "integer" | "number" | "boolean" | "null" | "any" | "'" text "'"
//          | "[" type "]" | "{" [field {"," field}] "}" | Name
//   field  = (key | "*") ["?"] ":" type ["(" note ")"] | ".." Name
//
// A key with `?` may be missing; `*` stands for keys of any name, and `..Name` for the fields of
// that object. Objects have no other keys than these. A Name begins with a capital; types may use
// themselves by it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/json.h"

namespace am {

struct JsonField;

struct JsonType {
  enum class Kind { kAny, kPlain, kText, kList, kObject, kUnion, kName };

  Kind kind = Kind::kAny;
  std::string word;               // kPlain: "integer"; kText: the text that it is; kName: the name
  std::vector<JsonType> parts;    // kList: of its items; kUnion: one of these
  std::vector<JsonField> fields;  // kObject
};

struct JsonField {
  std::string key;  // "*": of any name; "..": those of the object that `type` names
  bool optional = false;
  JsonType type;
  std::string note;
};

using JsonNames = std::map<std::string, JsonType, std::less<>>;

struct JsonTypes {
  JsonType type;
  JsonNames names;
};

// Throws Error(kInternal) that says where the notation is wrong.
JsonTypes parse_json_types(std::string_view notation);

// JSON Schema, draft 2020-12. A Name becomes a reference to "#/$defs/Name"; what `..Name` stands
// for is taken from `names`.
Json json_schema(const JsonType& type, const JsonNames& names);

// The keys with their notes and the texts that they may be, as they are written but for their other
// types: empty for a type that has none. What a Name stands for is written out once, where it is
// known; after that it is "..".
std::string json_outline(const JsonType& type, const JsonNames& names);

}  // namespace am
