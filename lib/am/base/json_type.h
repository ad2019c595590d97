// A one-line notation of JSON types, from which a JSON Schema for programs and an outline for
// people are generated.
//
//   const JsonTypes types = parse_json_types(
//       "{ranks: [Rank], note?: string}; Rank = {rank: integer, bytes: integer | null (unknown)}");
//   json_schema(types.type, types.names);   // {"type": "object", "properties": {"ranks": {..
//   json_outline(types.type, types.names);  // "ranks [{rank, bytes (unknown)}], note?"
//
//   types  = type {";" Name "=" type}
//   type   = one {"|" one}
//   one    = "string" | "integer" | "number" | "boolean" | "null" | "any" | "'" text "'"
//          | "[" type "]" | "{" [field {"," field}] "}" | Name
//   field  = (key | "*") ["?"] ":" type ["(" note ")"] | ".." Name
//
// A key with `?` may be missing. `*` means keys of any name, and `..Name` stands for all fields of
// the object type Name. Other keys are not allowed. A Name begins with a capital letter. Types may
// be recursive.
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
  // The plain type, for example "integer" (kPlain), the literal (kText), or the type's name
  // (kName).
  std::string word;
  std::vector<JsonType> parts;    // kList: type of the items; kUnion: the alternatives
  std::vector<JsonField> fields;  // kObject: the fields
};

struct JsonField {
  // The key; "*" for keys of any name; ".." if the object contains all fields of the type `type`.
  std::string key;
  bool optional = false;
  JsonType type;
  std::string note;
};

using JsonNames = std::map<std::string, JsonType, std::less<>>;

struct JsonTypes {
  JsonType type;
  JsonNames names;
};

// Parses the notation above. Throws Error(kInternal) with the position of a syntax error.
JsonTypes parse_json_types(std::string_view notation);

// Returns a JSON Schema, draft 2020-12. A Name becomes a reference to "#/$defs/Name". `..Name` is
// replaced by the fields of the type Name in `names`.
Json json_schema(const JsonType& type, const JsonNames& names);

// Returns the keys of a type with their notes and literal values, in the notation's order, or an
// empty text for a type without keys. The fields of a type in `names` are listed where its name
// occurs first; later occurrences are "..".
std::string json_outline(const JsonType& type, const JsonNames& names);

}  // namespace am
