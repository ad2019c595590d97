#include "outline.h"

#include <algorithm>
#include <cctype>

#include "am/base/text.h"
#include "am/config/field.h"

namespace am_plan::lsp {
namespace {

// Returns the offset after the string that begins at `at`; kNone if the string is not closed.
size_t after_string(std::string_view text, size_t at) {
  const char quote = text[at];
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == quote) return i + 1;
    if (text[i] == '\\' && quote == '"') ++i;
  }
  return kNone;
}

bool is_quote(char c) { return c == '"' || c == '\''; }

// Returns the part of the line without the blanks at both ends of the part.
Bytes trimmed(std::string_view line, Bytes part) {
  while (part.begin < part.end && std::isspace(static_cast<unsigned char>(line[part.begin]))) {
    ++part.begin;
  }
  while (part.end > part.begin && std::isspace(static_cast<unsigned char>(line[part.end - 1]))) {
    --part.end;
  }
  return part;
}

std::string_view text_of(std::string_view line, Bytes part) {
  return line.substr(part.begin, part.end - part.begin);
}

// Returns the parts of a header, `[name]` or `[[name]]`, which begins at `at`.
LineParts header_parts(std::string_view code, size_t at) {
  const size_t begin = std::min(code.find_first_not_of('[', at), code.size());
  const Bytes name = trimmed(code, {begin, std::min(code.find(']', begin), code.size())});
  if (!is_bare_name(text_of(code, name))) return {};
  return {LineParts::Kind::kHeader, name, {}};
}

Entry entry_of(int number, std::string_view line, const LineParts& parts,
               const std::string& header) {
  const std::string key(text_of(line, parts.name));
  const std::string name = header.empty() ? key : am::cat(header, ".", key);
  const size_t dot = std::min(name.find('.'), name.size());
  return {number, name.substr(0, dot), dot < name.size() ? name.substr(dot + 1) : "", parts.value};
}

std::string strategy_of(const Document& document, const Outline& outline) {
  const std::vector<std::string>& names = am::config::strategy_names();
  if (const Entry* entry = outline.find_entry("strategy", "name")) {
    const std::string_view value = text_of(document.line(entry->line), entry->value);
    for (const std::string& name : names) {
      if (value.size() == name.size() + 2 && value.substr(1, name.size()) == name) return name;
    }
  }
  return am::config::strategy_name(am::config::Plan{}.strategy);
}

}  // namespace

size_t find_outside_quotes(std::string_view text, std::string_view wanted, size_t from) {
  while (from < text.size()) {
    if (wanted.find(text[from]) != kNone) return from;
    from = is_quote(text[from]) ? after_string(text, from) : from + 1;
  }
  return kNone;
}

size_t open_quote(std::string_view text) {
  size_t at = 0;
  while ((at = find_outside_quotes(text, "\"'", at)) != kNone) {
    const size_t after = after_string(text, at);
    if (after == kNone) return at;
    at = after;
  }
  return kNone;
}

bool is_bare_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  });
}

LineParts parts_of(std::string_view line) {
  const std::string_view code = line.substr(0, find_outside_quotes(line, "#"));
  const size_t begin = code.find_first_not_of(" \t");
  if (begin == kNone) return {};
  if (code[begin] == '[') return header_parts(code, begin);
  const size_t equals = find_outside_quotes(code, "=");
  if (equals == kNone) return {};
  const Bytes name = trimmed(code, {begin, equals});
  if (!is_bare_name(text_of(code, name))) return {};
  return {LineParts::Kind::kEntry, name, trimmed(code, {equals + 1, code.size()})};
}

std::string Outline::section_at(int line) const {
  std::string name;
  for (const Header& header : headers) {
    if (header.line <= line) name = header.name;
  }
  return name;
}

const Header* Outline::find_header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const Header& header) { return header.name == name; });
  return found == headers.end() ? nullptr : &*found;
}

const Entry* Outline::find_entry(std::string_view section, std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.section == section && entry.key == key;
  });
  return found == entries.end() ? nullptr : &*found;
}

Outline outline_of(const Document& document) {
  Outline outline;
  std::string header;
  for (int number = 0; number < document.line_count(); ++number) {
    const std::string_view line = document.line(number);
    const LineParts parts = parts_of(line);
    if (parts.kind == LineParts::Kind::kHeader) {
      header = text_of(line, parts.name);
      outline.headers.push_back({number, header});
    } else if (parts.kind == LineParts::Kind::kEntry) {
      outline.entries.push_back(entry_of(number, line, parts, header));
    }
  }
  outline.strategy = strategy_of(document, outline);
  return outline;
}

}  // namespace am_plan::lsp
