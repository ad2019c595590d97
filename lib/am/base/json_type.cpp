#include "am/base/json_type.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/base/text_cursor.h"

namespace am {
namespace {

using Kind = JsonType::Kind;

constexpr std::array<std::string_view, 5> kPlainTypes = {"string", "integer", "number", "boolean",
                                                         "null"};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), at_(text) {}

  JsonTypes parse() {
    JsonTypes types{any_of(), {}};
    while (take(';')) {
      std::string name = word();
      require('=');
      types.names.emplace(std::move(name), any_of());
    }
    if (peek() != '\0') fail("expected the end");
    return types;
  }

 private:
  [[noreturn]] void fail(std::string_view problem) const {
    throw Error(ErrorKind::kInternal,
                cat("JSON type `", text_, "`: ", problem, ", at `", at_.rest(), "`"));
  }

  char peek() { return at_.peek(); }
  bool take(char c) { return at_.take(c); }
  void require(char c) {
    if (!take(c)) fail(cat("expected ", c));
  }
  std::string until(char end) {
    const size_t stop = at_.rest().find(end);
    if (stop == std::string_view::npos) fail(cat("expected ", end));
    std::string text(at_.pass(stop));
    at_.pass(1);
    return text;
  }
  std::string word() {
    const std::string_view word = at_.take_while(
        [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
    if (word.empty()) fail("expected a word");
    return std::string(word);
  }

  JsonType any_of() {
    JsonType first = one();
    if (peek() != '|') return first;
    JsonType all{Kind::kUnion, {}, {std::move(first)}, {}};
    while (take('|')) all.parts.push_back(one());
    return all;
  }

  JsonType one() {
    if (take('\'')) return {Kind::kText, until('\''), {}, {}};
    if (take('[')) {
      JsonType list{Kind::kList, {}, {any_of()}, {}};
      require(']');
      return list;
    }
    if (take('{')) return object();
    std::string name = word();
    if (name == "any") return {};
    if (std::isupper(static_cast<unsigned char>(name.front())) != 0) {
      return {Kind::kName, std::move(name), {}, {}};
    }
    if (std::find(kPlainTypes.begin(), kPlainTypes.end(), name) == kPlainTypes.end()) {
      fail(cat("\"", name, "\" is not the name of a type"));
    }
    return {Kind::kPlain, std::move(name), {}, {}};
  }

  JsonType object() {
    JsonType object{Kind::kObject, {}, {}, {}};
    if (take('}')) return object;
    do {
      JsonField field;
      if (take('.')) {
        require('.');
        field.key = "..";
        field.type = {Kind::kName, word(), {}, {}};
        object.fields.push_back(std::move(field));
        continue;
      }
      field.key = take('*') ? std::string("*") : word();
      field.optional = take('?');
      require(':');
      field.type = any_of();
      if (take('(')) field.note = until(')');
      object.fields.push_back(std::move(field));
    } while (take(','));
    require('}');
    return object;
  }

  std::string_view text_;
  TextCursor at_;
};

struct ObjectSchema {
  Json properties = Json::object();
  Json required = Json::array();
  Json others = false;

  void add(const std::vector<JsonField>& fields, const JsonNames& names) {
    for (const JsonField& field : fields) {
      if (field.key == "..") {
        add(names.at(field.type.word).fields, names);
        continue;
      }
      Json schema = json_schema(field.type, names);
      if (!field.note.empty()) schema["description"] = field.note;
      if (field.key == "*") {
        others = std::move(schema);
        continue;
      }
      properties[field.key] = std::move(schema);
      if (!field.optional) required.push_back(field.key);
    }
  }
};

Json object_schema(const JsonType& type, const JsonNames& names) {
  ObjectSchema object;
  object.add(type.fields, names);
  Json schema = {{"type", "object"}, {"properties", std::move(object.properties)}};
  if (!object.required.empty()) schema["required"] = std::move(object.required);
  schema["additionalProperties"] = std::move(object.others);
  return schema;
}

Json union_schema(const JsonType& type, const JsonNames& names) {
  const auto all_are = [&](Kind kind) {
    return std::all_of(type.parts.begin(), type.parts.end(),
                       [&](const JsonType& part) { return part.kind == kind; });
  };
  const bool words = all_are(Kind::kPlain) || all_are(Kind::kText);
  Json list = Json::array();
  for (const JsonType& part : type.parts) {
    list.push_back(words ? Json(part.word) : json_schema(part, names));
  }
  const char* key = all_are(Kind::kPlain) ? "type" : words ? "enum" : "anyOf";
  return {{key, std::move(list)}};
}

class Outline {
 public:
  explicit Outline(const JsonNames& names) : names_(names) {}

  // Returns the fields of an object, for example "a, b [{c}]". For a union, returns the fields of
  // every alternative, separated by "; or ".
  std::string fields_of(const JsonType& type) {
    if (type.kind == Kind::kName) return written_out(type.word);
    std::vector<std::string> texts;
    if (type.kind == Kind::kUnion) {
      for (const JsonType& part : type.parts) add(fields_of(part), texts);
      return join(texts, "; or ");
    }
    for (const JsonField& field : type.fields) {
      if (field.key == "..") {
        add(fields_of(field.type), texts);
      } else if (field.key != "*") {
        texts.push_back(line_of(field));
      }
    }
    return join(texts, ", ");
  }

 private:
  std::string line_of(const JsonField& field) {
    std::vector<std::string> notes;
    add(texts_of(field.type), notes);
    add(field.note, notes);
    return cat(field.key, field.optional ? "?" : "", inside_of(field.type),
               notes.empty() ? "" : cat(" (", join(notes, "; "), ")"));
  }

  // Returns the literal values among a type's alternatives, for example "a, b"; empty if there are
  // none.
  static std::string texts_of(const JsonType& type) {
    std::vector<std::string> texts;
    for (const JsonType& part : type.parts) {
      if (part.kind == Kind::kText) texts.push_back(part.word);
    }
    return join(texts, ", ");
  }

  // Returns " [{..}]" for a list of objects, " {..}" for an object, and nothing for plain values.
  std::string inside_of(const JsonType& type) {
    std::vector<std::string> texts;
    if (type.kind == Kind::kUnion) {
      for (const JsonType& part : type.parts) add(inside_of(part), texts);
      return join(texts, " or");
    }
    const bool is_list = type.kind == Kind::kList;
    const std::string fields = fields_of(is_list ? type.parts.front() : type);
    if (fields.empty()) return {};
    return is_list ? cat(" [{", fields, "}]") : cat(" {", fields, "}");
  }

  // Returns the fields of a named type where its name occurs first, and ".." for later occurrences.
  std::string written_out(const std::string& name) {
    if (!written_.insert(name).second) return "..";
    const auto type = names_.find(name);
    return type == names_.end() ? std::string() : fields_of(type->second);
  }

  static void add(std::string text, std::vector<std::string>& texts) {
    if (!text.empty()) texts.push_back(std::move(text));
  }

  const JsonNames& names_;
  std::set<std::string> written_;
};

}  // namespace

JsonTypes parse_json_types(std::string_view notation) { return Parser(notation).parse(); }

Json json_schema(const JsonType& type, const JsonNames& names) {
  switch (type.kind) {
    case Kind::kAny:
      return Json::object();
    case Kind::kPlain:
      return {{"type", type.word}};
    case Kind::kText:
      return {{"const", type.word}};
    case Kind::kName:
      return {{"$ref", cat("#/$defs/", type.word)}};
    case Kind::kList:
      return {{"type", "array"}, {"items", json_schema(type.parts.front(), names)}};
    case Kind::kObject:
      return object_schema(type, names);
    case Kind::kUnion:
      break;
  }
  return union_schema(type, names);
}

std::string json_outline(const JsonType& type, const JsonNames& names) {
  return Outline(names).fields_of(type);
}

}  // namespace am
