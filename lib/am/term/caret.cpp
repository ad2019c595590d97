#include "am/term/caret.h"

#include <algorithm>
#include <vector>

#include "am/base/text.h"
#include "am/term/printable.h"

namespace am::term {
namespace {

Role role_of(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return Role::kError;
    case Severity::kWarning:
      return Role::kWarning;
    case Severity::kNote:
      return Role::kNote;
  }
  return Role::kPlain;
}

std::string place(const Span& span) {
  if (span.file.empty()) return {};
  const std::string file = echo(span.file);
  if (span.line <= 0) return cat(file, ": ");
  return cat(file, ":", span.line, ":", std::max(1, span.column), ": ");
}

// Returns the characters [begin, begin + count) of a UTF-8 text.
std::string characters(std::string_view text, int begin, int count) {
  std::string out;
  int index = -1;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++index;
    if (index >= begin && index < begin + count) out += c;
  }
  return out;
}

// The shown part of a source line, and the position of the underline in this part. A line wider
// than the output is shortened to the text around the underline.
struct Excerpt {
  std::string text;
  int column;  // index of the underline's first character in `text`, from 0
  int length;  // in characters
};

Excerpt excerpt(const Span& span, int width) {
  const std::string line = printable(span.source);
  const int total = character_count(line);
  const int column = std::clamp(span.column - 1, 0, total);
  const int length = std::clamp(span.length, 1, std::max(1, total - column));
  if (total <= width) return {line, column, length};
  constexpr std::string_view kCut = "...";
  const auto cut = static_cast<int>(kCut.size());
  const int first = std::clamp(column - width / 3, 0, std::max(0, total - width));
  const int room = width - 2 * cut;
  const std::string before(first > 0 ? kCut : "");
  const std::string after(first + room < total ? kCut : "");
  const int shift = static_cast<int>(before.size()) - first;
  return {cat(before, characters(line, first, room), after), column + shift,
          std::min(length, room - (column - first))};
}

std::string source_lines(const Span& span, Severity severity, const Style& style) {
  constexpr int kGutter = 5;
  const std::string number = std::to_string(span.line);
  const int gutter = std::max(kGutter, display_width(number));
  const Excerpt shown = excerpt(span, std::max(30, style.width - gutter - 3));
  // The underline is measured in terminal columns: a character may need two columns, or none.
  const std::string blank = repeat(" ", display_width(characters(shown.text, 0, shown.column)));
  const int marked = display_width(characters(shown.text, shown.column, shown.length));
  return cat(style.paint(Role::kDim, cat(pad_left(number, gutter), " |")), " ", shown.text, "\n",
             style.paint(Role::kDim, cat(repeat(" ", gutter), " |")), " ", blank,
             style.paint(role_of(severity), repeat("^", std::max(1, marked))), "\n");
}

// Formats a message of several lines; indents the lines after the first by 6 blanks.
std::string indented(const std::string& text) { return echo_lines(text, 6); }

}  // namespace

std::string render(const Diagnostic& diagnostic, const Style& style) {
  const Span& span = diagnostic.span;
  std::string head = to_string(diagnostic.severity);
  if (!diagnostic.rule.empty()) head += cat("[", diagnostic.rule, "]");
  std::string out =
      cat(style.paint(Role::kBold, place(span)), style.paint(role_of(diagnostic.severity), head),
          ": ", indented(diagnostic.message), "\n");
  if (!span.file.empty() && span.line > 0 && !span.source.empty()) {
    out += source_lines(span, diagnostic.severity, style);
  }
  if (!diagnostic.help.empty()) {
    out += cat(style.paint(Role::kHelp, "help"), ": ", indented(diagnostic.help), "\n");
  }
  return out;
}

std::string render(const Diagnostics& diagnostics, const Style& style) {
  const std::vector<Diagnostic>& all = diagnostics.items();
  std::string out;
  Diagnostics left_out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i < kMostShown) {
      out += render(all[i], style);
    } else {
      left_out.add(all[i]);
    }
  }
  if (left_out.empty()) return out;
  return cat(out, style.paint(Role::kBold, cat("and ", left_out.items().size(), " more")),
             left_out.ok() ? "" : cat(", among them ", summary(left_out)), "\n");
}

std::string summary(const Diagnostics& diagnostics) {
  const auto counted = [](int count, const char* noun) {
    return cat(count, " ", noun, count == 1 ? "" : "s");
  };
  const int errors = diagnostics.errors();
  const int warnings = diagnostics.count(Severity::kWarning);
  if (errors == 0 && warnings == 0) return "no errors";
  if (warnings == 0) return counted(errors, "error");
  if (errors == 0) return counted(warnings, "warning");
  return cat(counted(errors, "error"), ", ", counted(warnings, "warning"));
}

}  // namespace am::term
