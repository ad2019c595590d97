#include "am/config/overrides.h"

#include <optional>
#include <string_view>

#include "am/base/text.h"

namespace am::config {
namespace {

constexpr const char* kShape = "write --set section.key=value";

Span whole(const std::string& text) { return {kOverrideFile, 1, 1, character_count(text), text}; }

// Returns the value of the document's only key. Descends through tables that have one member each.
Value& innermost(Value& document) {
  Value* at = &document;
  while (at->is_table() && at->members.size() == 1) at = &at->members.front().value;
  return *at;
}

void set_source(Value& value, const std::string& text) {
  value.span.source = text;
  for (Member& member : value.members) {
    member.key_span.source = text;
    set_source(member.value, text);
  }
}

// Reads `text`, which has the form left=right but is not valid TOML, as the key `left` with the
// unquoted text `right`. Returns nothing and adds errors if `right` is empty, if `left` is not a
// key, or if `right` starts like a quoted text, an array or a table. In the last case, the errors
// are `as_toml`, those of reading `text` as TOML.
std::optional<Value> read_bare_word(const std::string& text, size_t equals,
                                    const Diagnostics& as_toml, Diagnostics& found) {
  const std::string_view right = trim(std::string_view(text).substr(equals + 1));
  if (right.empty()) {
    found.error("plan.syntax", whole(text), "the value is missing",
                "write an empty text as key='\"\"'");
    return std::nullopt;
  }
  Diagnostics in_key;
  auto document = read_toml(text.substr(0, equals) + "=0", kOverrideFile, in_key);
  if (!document) {
    found.error("plan.syntax", whole(text), in_key.items().front().message, kShape);
    return std::nullopt;
  }
  if (std::string_view("\"'[{").find(right.front()) != std::string_view::npos) {
    found.append(as_toml);
    return std::nullopt;
  }
  Value& value = innermost(*document);
  value.kind = Value::Kind::kText;
  value.text = std::string(right);
  const auto offset = static_cast<size_t>(right.data() - text.data());
  value.span.column = 1 + character_count(std::string_view(text).substr(0, offset));
  value.span.length = character_count(right);
  set_source(*document, text);
  return document;
}

std::optional<Value> read_override(const std::string& text, Diagnostics& found) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || text.find('\n') != std::string::npos) {
    found.error("plan.syntax", whole(text), "this is not of the form section.key=value", kShape);
    return std::nullopt;
  }
  Diagnostics as_toml;
  if (auto document = read_toml(text, kOverrideFile, as_toml)) return document;
  return read_bare_word(text, equals, as_toml, found);
}

void merge(Value&& from, Value& into) {
  for (Member& member : from.members) {
    Member* old = into.find(member.key);
    if (old == nullptr) {
      into.members.push_back(std::move(member));
    } else if (member.value.is_table() && !member.value.is_inline && old->value.is_table()) {
      merge(std::move(member.value), old->value);
    } else {
      *old = std::move(member);
    }
  }
}

}  // namespace

void apply_overrides(const std::vector<Override>& overrides, Value& root, Diagnostics& found) {
  for (const Override& override : overrides) {
    if (auto document = read_override(override.text, found)) merge(std::move(*document), root);
  }
}

}  // namespace am::config
