#include "findings.h"

#include "../plan_input.h"
#include "am/base/text.h"

namespace am_plan::lsp {
namespace {

bool is_elsewhere(const Document& document, const am::Span& span) {
  return !span.file.empty() && span.file != document.file();
}

}  // namespace

am::Diagnostics findings(const Document& document) {
  return check_plan_text(document.text(), document.file());
}

Range range_of(const Document& document, const am::Diagnostic& finding) {
  const am::Span& span = finding.span;
  if (span.line == 0 || is_elsewhere(document, span)) {
    return document.range(0, {0, document.line(0).size()});
  }
  const std::string_view line = document.line(span.line - 1);
  const size_t begin = bytes_of_characters(line, span.column - 1);
  const size_t end = begin + bytes_of_characters(line.substr(begin), span.length);
  return document.range(span.line - 1, {begin, end});
}

std::string message_of(const Document& document, const am::Diagnostic& finding) {
  const am::Span& span = finding.span;
  std::string text = finding.message;
  if (is_elsewhere(document, span)) text = am::cat(span.file, ":", span.line, ": ", text);
  if (!finding.help.empty()) text += am::cat("\nhelp: ", finding.help);
  return text;
}

}  // namespace am_plan::lsp
