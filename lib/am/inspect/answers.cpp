#include "am/inspect/answers.h"

#include <utility>

#include "am/base/json_type.h"
#include "am/base/text.h"

namespace am::inspect {
namespace {

// JSON types, by name, that the answers of several commands use. `Answer` is any entry of the list
// "results".
constexpr std::string_view kShared =
    "{results: [Answer], not_run?: [string] (commands behind the one that failed), diagnostics?: "
    "[Diagnostic] (of the plan), error?: Error (of the target)};Diagnostic = {rule: string, "
    "severity: 'error' | 'warning' | 'note', file: string, "
    "line: integer | null, column: integer | null, message: string, help: string};Entry = "
    "{command: string, "
    "input: string (as it was typed), ok: boolean};Error = {message: string, help: string};Failed "
    "= {..Entry, error: Error};Mesh = {dims: [string] (from outer to inner), sizes: "
    "[integer]};Moments = {name: string, numel: integer, min: number | null, max: number | null, "
    "mean: number | null, std: number | null, norm: number | null, nan: integer, inf: "
    "integer};Part = {rank: integer, offset: [integer], shape: [integer]};Piped = {..Entry, "
    "filters: [string] (the commands after pipes), *: any};Problem = {what: string, where: "
    "string};RankBytes = {rank: integer, sharded_bytes: integer, unsharded_bytes: integer, "
    "gradient_bytes: integer, optimizer_bytes: integer, model_bytes: integer};Unread = {name: "
    "string, problem: string}";

const JsonTypes& shared() {
  static const auto* const kTypes = new JsonTypes(parse_json_types(kShared));
  return *kTypes;
}

// Returns the type of the JSON answer of a command: the fields common to all answers, and the
// command's own `fields`. A field of the command replaces a common field with the same key.
JsonType entry_of(const JsonType& fields, const JsonNames& names, const Command& command) {
  if (fields.kind == JsonType::Kind::kName) {
    return entry_of(names.at(fields.word), names, command);
  }
  if (fields.kind == JsonType::Kind::kUnion) {
    JsonType all = fields;
    for (JsonType& part : all.parts) part = entry_of(part, names, command);
    return all;
  }
  JsonType entry = names.at("Entry");
  entry.fields.front().type = {JsonType::Kind::kText, std::string(command.name), {}, {}};
  for (const JsonField& field : fields.fields) {
    std::erase_if(entry.fields, [&](const JsonField& known) { return known.key == field.key; });
    entry.fields.push_back(field);
  }
  return entry;
}

// Returns the types that the command declares for its answer, together with the shared named types.
JsonTypes fields_of(const Command& command) {
  JsonTypes types = parse_json_types(command.json.empty() ? "{}" : command.json);
  types.names.insert(shared().names.begin(), shared().names.end());
  return types;
}

// Returns the type that a name stands for, and any other type unchanged.
const JsonType& resolved(const JsonType& type, const JsonNames& names) {
  return type.kind == JsonType::Kind::kName ? resolved(names.at(type.word), names) : type;
}

// Adds to `keys` the keys of an object type and of the types that it includes by "..", except
// `left_out`.
void add_keys(const JsonType& object, const JsonNames& names, std::string_view left_out,
              std::vector<std::string>& keys) {
  for (const JsonField& field : object.fields) {
    if (field.key == "..") {
      add_keys(resolved(field.type, names), names, left_out, keys);
    } else if (field.key != "*" && field.key != left_out) {
      keys.push_back(field.key);
    }
  }
}

// Returns the type of the objects in a list; null if the type is not a list of objects.
const JsonType* items_of(const JsonType& type, const JsonNames& names) {
  const JsonType& list = resolved(type, names);
  if (list.kind != JsonType::Kind::kList) return nullptr;
  const JsonType& item = resolved(list.parts.front(), names);
  return item.kind == JsonType::Kind::kObject ? &item : nullptr;
}

}  // namespace

std::vector<std::string> row_keys(const Command& command) {
  const JsonTypes types = fields_of(command);
  const JsonType& all = resolved(types.type, types.names);
  // The first alternative of a union is the usual answer, for example the answer of `ls` without
  // options.
  const bool has_parts = all.kind == JsonType::Kind::kUnion;
  const JsonType& answer = has_parts ? resolved(all.parts.front(), types.names) : all;
  std::vector<std::string> keys;
  for (const JsonField& field : answer.fields) {
    const JsonType* row = field.optional ? nullptr : items_of(field.type, types.names);
    if (row == nullptr) continue;
    add_keys(*row, types.names, command.nested_rows, keys);
    for (const JsonField& inner : row->fields) {
      const bool nested = !command.nested_rows.empty() && inner.key == command.nested_rows;
      const JsonType* entry = nested ? items_of(inner.type, types.names) : nullptr;
      if (entry != nullptr) add_keys(*entry, types.names, {}, keys);
    }
    break;
  }
  return keys;
}

std::string help_text(const Command& command) {
  const JsonTypes types = fields_of(command);
  const std::string fields = json_outline(types.type, types.names);
  const char* end = command.help.empty() ? "" : "\n";
  return cat(command.help, fields.empty() ? "" : cat(end, "JSON: ", fields, "."));
}

Json answers_schema() {
  Json definitions = Json::object();
  const auto add_names = [&](const JsonNames& names) {
    for (const auto& [name, type] : names) definitions[name] = json_schema(type, names);
  };
  add_names(shared().names);
  Json answers = Json::array({{{"$ref", "#/$defs/Failed"}}, {{"$ref", "#/$defs/Piped"}}});
  for (const Command* command : commands()) {
    if (command->as<BehindPipe>() != nullptr) continue;
    const JsonTypes types = fields_of(*command);
    add_names(types.names);
    Json entry = {{"description", command->summary}};
    entry.update(json_schema(entry_of(types.type, types.names, *command), types.names));
    definitions[std::string(command->name)] = std::move(entry);
    answers.push_back({{"$ref", cat("#/$defs/", command->name)}});
  }
  definitions["Answer"] = {{"anyOf", std::move(answers)}};
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "Output of am-repl --json"}};
  schema.update(json_schema(shared().type, shared().names));
  schema["$defs"] = std::move(definitions);
  return schema;
}

}  // namespace am::inspect
