#include "completion.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/config/field.h"
#include "am/config/model_names.h"
#include "common/known_names.h"
#include "outline.h"

namespace am_plan::lsp {
namespace {

using am::config::FieldSpec;

// The line that is completed, divided at the position of the completion.
struct Place {
  const Document& document;
  int line;
  std::string_view before;
  std::string_view after;

  // Returns an edit that replaces the text between the offset `begin` and the position.
  TextEdit edit(size_t begin, std::string text) const {
    return {document.range(line, {begin, before.size()}), std::move(text)};
  }
};

std::vector<Completion> complete_section(const Place& place, size_t bracket) {
  const Outline outline = outline_of(place.document);
  const bool closed = am::starts_with(place.after, "]");
  std::vector<Completion> out;
  for (const am::config::SectionSpec& section : am::config::sections()) {
    const Header* header = outline.find_header(section.name);
    if (header != nullptr && header->line != place.line) continue;
    const std::string name(section.name);
    out.push_back({Completion::Kind::kSection, name, "", std::string(section.help),
                   place.edit(bracket + 1, closed ? name : name + "]")});
  }
  return out;
}

std::vector<Completion> complete_key(const Place& place, size_t begin) {
  const std::string_view word = place.before.substr(begin);
  if (!word.empty() && !is_bare_name(word)) return {};
  const Outline outline = outline_of(place.document);
  const std::string section = outline.section_at(place.line);
  const bool assigned = place.after.find('=') != kNone;
  std::vector<Completion> out;
  for (const std::string& key : am::config::section_keys(section, outline.strategy)) {
    const Entry* entry = outline.find_entry(section, key);
    if (entry != nullptr && entry->line != place.line) continue;
    const FieldSpec& field = *am::config::find_field(section, key, outline.strategy);
    out.push_back({Completion::Kind::kKey, key, field.type, field.help,
                   place.edit(begin, assigned ? key : key + " = ")});
  }
  return out;
}

void add_items(am::Json& list, const am::Json& items) {
  list.insert(list.end(), items.begin(), items.end());
}

// Adds to `values` the values that a JSON Schema lists by "enum", and true and false for a boolean.
// With `in_array`, uses the schema of the array's items instead.
void add_listed(const am::Json& schema, bool in_array, am::Json& values) {
  if (schema.contains("anyOf")) {
    for (const am::Json& each : schema["anyOf"]) add_listed(each, in_array, values);
  }
  if (in_array) {
    if (schema.contains("items")) add_listed(schema["items"], false, values);
    return;
  }
  if (schema.contains("enum")) add_items(values, schema["enum"]);
  if (schema.value("type", "") == "boolean") add_items(values, {true, false});
}

// Returns the known values of a key as JSON, which is also their notation in TOML. `in_array`: the
// position is inside an array.
am::Json known_values(const FieldSpec& field, bool in_array) {
  am::Json values = am::Json::array();
  add_listed(field.schema, in_array, values);
  for (const auto& known : am_apps::known_names(field.name())) values.push_back(known.name);
  if (field.name() == "model.path") add_items(values, am::config::builtin_models());
  return values;
}

// Returns the offset in `before` at which its last array item begins: after the last `[` or comma
// outside of quotes. `begin` is the offset of the value. Returns `begin` if the value contains no
// `[` or comma.
size_t begin_of_item(std::string_view before, size_t begin) {
  size_t at = find_outside_quotes(before, "[,", begin);
  while (at != kNone) {
    begin = at + 1;
    at = find_outside_quotes(before, "[,", begin);
  }
  return begin;
}

// Returns the text to insert for a value. `quote` is the opening quote that the line already
// contains, or 0. `after` is the text after the position.
std::string value_text(const am::Json& value, char quote, std::string_view after) {
  if (quote == 0) return am::dump_json(value, -1);
  std::string text = value.get<std::string>();
  if (after.empty() || after[0] != quote) text += quote;
  return text;
}

const FieldSpec* field_of_line(const Place& place) {
  const Outline outline = outline_of(place.document);
  const auto entry = std::find_if(outline.entries.begin(), outline.entries.end(),
                                  [&](const Entry& each) { return each.line == place.line; });
  if (entry == outline.entries.end()) return nullptr;
  return am::config::find_field(entry->section, entry->key, outline.strategy);
}

std::vector<Completion> complete_value(const Place& place, size_t equals) {
  const FieldSpec* field = field_of_line(place);
  if (field == nullptr) return {};
  const size_t item = begin_of_item(place.before, equals + 1);
  const size_t open = open_quote(place.before);
  const char quote = open == kNone ? char{0} : place.before[open];
  const size_t word = std::min(place.before.find_first_not_of(" \t", item), place.before.size());
  const size_t begin = open == kNone ? word : open + 1;
  std::vector<Completion> out;
  for (const am::Json& value : known_values(*field, item > equals + 1)) {
    if (quote != 0 && !value.is_string()) continue;
    const std::string blank = begin == equals + 1 ? " " : "";
    const std::string label = value.is_string() ? value.get<std::string>() : value.dump();
    out.push_back({Completion::Kind::kValue, label, "", "",
                   place.edit(begin, blank + value_text(value, quote, place.after))});
  }
  return out;
}

}  // namespace

std::vector<Completion> completions_at(const Document& document, Position position) {
  const std::string_view line = document.line(position.line);
  const size_t at = document.byte_at(position);
  const Place place{document, position.line, line.substr(0, at), line.substr(at)};
  if (find_outside_quotes(place.before, "#") != kNone) return {};
  const size_t begin = std::min(place.before.find_first_not_of(" \t"), at);
  if (begin < at && line[begin] == '[') return complete_section(place, begin);
  const size_t equals = find_outside_quotes(place.before, "=");
  return equals == kNone ? complete_key(place, begin) : complete_value(place, equals);
}

}  // namespace am_plan::lsp
