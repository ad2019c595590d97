#include "fixes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "am/base/text.h"
#include "am/config/field.h"
#include "findings.h"
#include "help_values.h"
#include "outline.h"

namespace am_plan::lsp {
namespace {

constexpr size_t kMostTried = 32;  // largest number of edits that one request tries

using am::config::FieldSpec;

// Returns the field to which `key` refers in a help text: `key` is a full name, a key of `section`,
// or a key that only one section has. Returns null if `key` is unknown or ambiguous.
const FieldSpec* field_called(const std::string& key, const std::string& section,
                              const std::string& strategy) {
  if (const size_t dot = key.find('.'); dot != std::string::npos) {
    return am::config::find_field(key.substr(0, dot), key.substr(dot + 1), strategy);
  }
  if (const auto* field = am::config::find_field(section, key, strategy)) return field;
  const FieldSpec* only = nullptr;
  for (const am::config::SectionSpec& each : am::config::sections()) {
    const auto* field = am::config::find_field(each.name, key, strategy);
    if (field == nullptr) continue;
    if (only != nullptr) return nullptr;
    only = field;
  }
  return only;
}

// Returns an edit that sets a key: replaces its value, or adds a line below its section's header,
// or adds the section.
TextEdit assignment_edit(const Document& document, const Outline& outline, const FieldSpec& field,
                         const std::string& value) {
  if (const Entry* entry = outline.find_entry(field.section, field.key)) {
    return {document.range(entry->line, entry->value), value};
  }
  const std::string line = am::cat("\n", field.key, " = ", value);
  if (const Header* header = outline.find_header(field.section)) {
    const size_t end = document.line(header->line).size();
    return {document.range(header->line, {end, end}), line};
  }
  const char* newline = am::ends_with(document.text(), "\n") ? "" : "\n";
  return {{document.end(), document.end()},
          am::cat(newline, "\n[", field.section, "]", line, "\n")};
}

// Adds a fix with an edit that `finding` proposes. If a fix with this edit exists already, adds the
// finding to that fix.
void propose(std::string title, TextEdit edit, const am::Diagnostic& finding,
             std::vector<Fix>& fixes) {
  const auto same =
      std::find_if(fixes.begin(), fixes.end(), [&](const Fix& fix) { return fix.edit == edit; });
  if (same == fixes.end()) {
    fixes.push_back({std::move(title), std::move(edit), {finding}});
  } else {
    same->mends.push_back(finding);
  }
}

void propose_assignments(const Document& document, const Outline& outline,
                         const am::Diagnostic& finding, std::vector<Fix>& fixes) {
  const std::string section = outline.section_at(range_of(document, finding).begin.line);
  for (const Proposal& proposal : proposals_in(finding.help)) {
    const FieldSpec* field = field_called(proposal.key, section, outline.strategy);
    if (field == nullptr) continue;
    for (const std::string& value : proposal.values) {
      propose(am::cat("Set ", proposal.key, " = ", value),
              assignment_edit(document, outline, *field, value), finding, fixes);
    }
  }
}

// Proposes to replace the text that the finding marks by the name that the help suggests. Proposes
// nothing if the help suggests no name, or if the finding marks no text in this document.
void propose_respelling(const Document& document, const am::Diagnostic& finding,
                        std::vector<Fix>& fixes) {
  const auto name = suggested_name(finding.help);
  if (!name || finding.span.line == 0 || finding.span.file != document.file()) return;
  const Range range = range_of(document, finding);
  const std::string_view marked =
      document.line(range.begin.line).substr(document.byte_at(range.begin));
  const bool quoted = am::starts_with(marked, "\"") || am::starts_with(marked, "'");
  propose(am::cat("Change to ", *name), {range, quoted ? am::cat('"', *name, '"') : *name}, finding,
          fixes);
}

bool has(const am::Diagnostics& found, const am::Diagnostic& finding) {
  const auto& items = found.items();
  return std::any_of(items.begin(), items.end(), [&](const am::Diagnostic& item) {
    return item.rule == finding.rule && item.message == finding.message;
  });
}

auto count_of_rule(const am::Diagnostics& found, const std::string& rule) {
  const auto& items = found.items();
  return std::count_if(items.begin(), items.end(),
                       [&](const am::Diagnostic& item) { return item.rule == rule; });
}

// Whether an edit mends a finding: the finding is not in `after`, and `after` contains fewer
// findings of the finding's rule than `before`. The second condition is needed because the edit may
// only change the finding's message.
bool is_mended(const am::Diagnostic& finding, const am::Diagnostics& before,
               const am::Diagnostics& after) {
  return !has(after, finding) &&
         count_of_rule(after, finding.rule) < count_of_rule(before, finding.rule);
}

// Whether an edit adds an error of the plan parser (rules "plan.*") that was not found `before`.
bool harms_reading(const am::Diagnostics& before, const am::Diagnostics& after) {
  const auto& items = after.items();
  return std::any_of(items.begin(), items.end(), [&](const am::Diagnostic& item) {
    return item.severity == am::Severity::kError && am::starts_with(item.rule, "plan.") &&
           !has(before, item);
  });
}

// Checks the document with the edit of `fix`. Removes from `fix.mends` the findings that the edit
// does not mend, or all findings if the edit adds an error of the plan parser.
void try_out(const Document& document, const am::Diagnostics& found, Fix& fix) {
  const am::Diagnostics after = findings(Document(document.uri(), document.edited(fix.edit)));
  const bool harms = harms_reading(found, after);
  std::erase_if(fix.mends, [&](const am::Diagnostic& finding) {
    return harms || !is_mended(finding, found, after);
  });
}

}  // namespace

std::vector<Fix> fixes_in(const Document& document, const am::Diagnostics& found, int first,
                          int last) {
  const Outline outline = outline_of(document);
  std::vector<Fix> fixes;
  for (const am::Diagnostic& finding : found.items()) {
    const int line = range_of(document, finding).begin.line;
    if (line < first || line > last) continue;
    propose_assignments(document, outline, finding, fixes);
    propose_respelling(document, finding, fixes);
  }
  // Each edit costs a check of the whole document. Without this limit, a range with many findings
  // would block the server.
  if (fixes.size() > kMostTried) fixes.resize(kMostTried);
  for (Fix& fix : fixes) try_out(document, found, fix);
  std::erase_if(fixes, [](const Fix& fix) { return fix.mends.empty(); });
  return fixes;
}

}  // namespace am_plan::lsp
