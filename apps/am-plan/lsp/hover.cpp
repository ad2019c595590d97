#include "hover.h"

#include <set>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/config/schema.h"
#include "am/frameworks/framework_rules.h"
#include "findings.h"
#include "outline.h"

namespace am_plan::lsp {
namespace {

std::string key_text(const am::config::FieldSpec& field, const Outline& outline) {
  const std::string title = am::cat("**", field.name(), "**: ", field.type, "\n\n", field.help);
  if (field.required) return title + "\n\nRequired";
  const am::config::Plan defaults = am::config::default_plan(outline.strategy);
  return am::cat(title, "\n\nDefault: ", am::config::default_text(field, defaults));
}

// Returns the text about the key `key` of `section`. If `key` names a member of a table, such as
// "tp_plan.x" in the section "strategy", returns the text about the table's key, "tp_plan". Returns
// an empty text for an unknown key.
std::string key_text(const std::string& section, const std::string& key, const Outline& outline) {
  const std::string outer = key.substr(0, key.find('.'));
  const auto* field = am::config::find_field(section, outer, outline.strategy);
  return field != nullptr ? key_text(*field, outline) : std::string();
}

std::string section_text(const std::string& name, const Outline& outline) {
  for (const am::config::SectionSpec& section : am::config::sections()) {
    if (section.name == name) return am::cat("**[", name, "]**\n\n", section.help);
  }
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return {};
  return key_text(name.substr(0, dot), name.substr(dot + 1), outline);
}

std::string line_text(const Document& document, int number, LineParts::Kind kind) {
  const Outline outline = outline_of(document);
  if (kind == LineParts::Kind::kHeader) return section_text(outline.section_at(number), outline);
  for (const Entry& entry : outline.entries) {
    if (entry.line == number) return key_text(entry.section, entry.key, outline);
  }
  return {};
}

std::optional<Hover> hover_of_line(const Document& document, Position position) {
  const LineParts parts = parts_of(document.line(position.line));
  if (parts.kind == LineParts::Kind::kOther) return std::nullopt;
  const size_t end = parts.kind == LineParts::Kind::kHeader ? parts.name.end : parts.value.end;
  const Range range = document.range(position.line, {parts.name.begin, end});
  if (!range.contains(position)) return std::nullopt;
  std::string text = line_text(document, position.line, parts.kind);
  return text.empty() ? std::nullopt : std::optional(Hover{range, std::move(text)});
}

std::string rule_text(std::string_view id) {
  const am::rules::Rule* rule = am::frameworks::find_any_rule(id);
  if (rule == nullptr) return {};
  return am::cat("**", rule->id, "**: ", rule->summary, "\n\n", rule->explain);
}

}  // namespace

std::optional<Hover> hover_at(const Document& document, const am::Diagnostics& found,
                              Position position) {
  std::optional<Hover> hover = hover_of_line(document, position);
  std::set<std::string> explained;
  for (const am::Diagnostic& item : found.items()) {
    const Range range = range_of(document, item);
    if (!range.contains(position) || !explained.insert(item.rule).second) continue;
    const std::string text = rule_text(item.rule);
    if (text.empty()) continue;
    if (!hover) {
      hover = Hover{range, text};
    } else {
      hover->markdown += am::cat("\n\n---\n\n", text);
    }
  }
  return hover;
}

}  // namespace am_plan::lsp
