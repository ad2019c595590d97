#include "am/term/table.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/term/printable.h"
#include "am/term/wrap.h"

namespace am::term {
namespace {

constexpr int kGap = 2;
constexpr size_t kLongestCell = 20'000;
constexpr int kNarrowestName = 16;

int longest_word(std::string_view text) {
  int longest = 0;
  for (const std::string& word : split(text, ' ')) longest = std::max(longest, display_width(word));
  return longest;
}

// Narrows the widest columns until the sum of the widths is at most `most`. No column becomes
// narrower than its minimum in `least`.
void narrow(std::vector<int>& widths, const std::vector<int>& least, int most) {
  int total = std::accumulate(widths.begin(), widths.end(), 0);
  for (; total > most; --total) {
    size_t widest = widths.size();
    for (size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest])) {
        widest = i;
      }
    }
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

// Returns the number of bytes of the characters in the first `columns` terminal columns of a text.
size_t bytes_of(std::string_view text, int columns) {
  size_t at = 0;
  while (at < text.size() && display_width(text.substr(0, at)) < columns) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  }
  return at;
}

// Returns the total width of the gaps between `count` columns of a table.
int gaps_of(size_t count) { return kGap * std::max(0, static_cast<int>(count) - 1); }

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789*") == std::string_view::npos;
}

}  // namespace

std::string short_name(std::string_view name, int width, const Style& style) {
  if (display_width(name) <= width) return std::string(name);
  std::vector<std::string> parts = split(name, '.');
  std::string out(name);
  for (size_t i = 0; i + 2 < parts.size() && display_width(out) > width; ++i) {
    if (is_number(parts[i]) || parts[i].empty()) continue;
    parts[i] = parts[i].substr(0, bytes_of(parts[i], 1));
    out = join(parts, ".");
  }
  if (display_width(out) <= width) return out;
  const std::string gap = style.unicode ? "…" : "~";
  const int head = (width - 1) / 3, tail = width - 1 - head;
  const size_t behind = bytes_of(out, display_width(out) - tail);
  return cat(out.substr(0, bytes_of(out, head)), gap, out.substr(behind));
}

void Table::add(std::vector<Cell> cells) {
  AM_ASSERT(cells.size() <= columns_.size(), "a table row has more cells than columns");
  for (Cell& cell : cells) cell.text = printable(shortened(cell.text, kLongestCell));
  cells.resize(columns_.size(), Cell(""));
  rows_.push_back(std::move(cells));
}

// Returns the smallest width, not less than `least` and the width of the column's title, in which
// different names in the column stay different after short_name(). Compares only the first 200
// different names.
int Table::least_name_width(size_t column, int least, const Style& style) const {
  constexpr size_t kMostNames = 200;
  std::set<std::string_view> names;
  for (const auto& row : rows_) {
    if (!row.empty() && names.size() < kMostNames) names.insert(row[column].text);
  }
  int longest = 0;
  for (const std::string_view each : names) longest = std::max(longest, display_width(each));
  int width = std::max(display_width(columns_[column].title), least);
  for (; width < longest; ++width) {
    std::set<std::string> shown;
    for (const std::string_view each : names) shown.insert(short_name(each, width, style));
    if (shown.size() == names.size()) break;
  }
  return width;
}

// Returns the widths of the first `count` columns of the table. If the table needs more than `most`
// columns of the terminal, narrows the widest wrapping columns, first down to their longest word,
// then down to 10 columns. In a window, also narrows columns of names (Align::kLeft).
std::vector<int> Table::widths(size_t count, int most, const Style& style) const {
  constexpr int kNarrowest = 10;
  constexpr int kFewLines = 32, kShortName = 24;
  std::vector<int> widths;
  std::vector<int> words;
  for (size_t i = 0; i < count; ++i) {
    int width = display_width(columns_[i].title);
    int word = longest_word(columns_[i].title);
    for (const auto& row : rows_) {
      if (row.empty()) continue;
      width = std::max(width, display_width(row[i].text));
      word = std::max(word, longest_word(row[i].text));
    }
    widths.push_back(width);
    words.push_back(columns_[i].align == Align::kWrap ? word : width);
  }
  most -= gaps_of(count);
  if (std::accumulate(widths.begin(), widths.end(), 0) <= most) return widths;
  // Lowers the minimum width of each column i with this alignment to `least(i)`, then narrows the
  // columns toward their minimums.
  const auto narrow_to = [&](Align align, const auto& least) {
    for (size_t i = 0; i < words.size(); ++i) {
      if (columns_[i].align == align) words[i] = std::min(words[i], least(i));
    }
    narrow(widths, words, most);
  };
  const std::vector<int> longest = words;
  const auto word = [&](size_t i) { return longest[i]; };
  const auto name = [&](int least) {
    return [this, least, &style](size_t i) { return least_name_width(i, least, style); };
  };
  if (style.window) {
    // Wraps texts first, but only down to kFewLines columns; then shortens names, and only then
    // wraps texts further.
    for (size_t i = 0; i < words.size(); ++i) {
      if (columns_[i].align == Align::kWrap) words[i] = widths[i];
    }
    narrow_to(Align::kWrap, [&](size_t i) { return std::max(longest[i], kFewLines); });
    narrow_to(Align::kLeft, name(kShortName));
    narrow_to(Align::kWrap, word);
    narrow_to(Align::kLeft, name(kNarrowestName));
  }
  narrow(widths, words, most);
  narrow_to(Align::kWrap, [&](size_t) { return kNarrowest; });
  return widths;
}

std::string Table::line(const std::vector<Cell>& cells, const std::vector<int>& widths,
                        const Style& style) const {
  std::string out;
  int blanks = 0;  // blanks to write before the next text; omitted at the end of the line
  for (size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    const int padding = widths[i] - display_width(cell.text);
    const bool right = columns_[i].align == Align::kRight;
    blanks += i > 0 ? kGap : 0;
    if (right) blanks += padding;
    if (!cell.text.empty()) {
      out += repeat(" ", blanks) + style.paint(cell.role, cell.text);
      blanks = 0;
    }
    if (!right) blanks += padding;
  }
  return out;
}

// Returns the text of one row of the table. The row has as many lines as its longest cell.
std::string Table::lines(const std::vector<Cell>& cells, const std::vector<int>& widths,
                         const std::string& margin, const Style& style) const {
  std::vector<std::vector<std::string>> parts;
  size_t count = 1;
  for (size_t i = 0; i < widths.size(); ++i) {
    const bool fits = display_width(cells[i].text) <= widths[i];
    if (!fits && columns_[i].align != Align::kWrap) {
      parts.push_back({short_name(cells[i].text, widths[i], style)});
    } else {
      parts.push_back(fits ? std::vector{cells[i].text}
                           : wrap(cells[i].text, widths[i], /*breaks_words=*/true));
    }
    count = std::max(count, parts.back().size());
  }
  std::string out;
  for (size_t n = 0; n < count; ++n) {
    std::vector<Cell> row;
    for (size_t i = 0; i < widths.size(); ++i) {
      row.emplace_back(n < parts[i].size() ? parts[i][n] : std::string(), cells[i].role);
    }
    out += cat(margin, line(row, widths, style), "\n");
  }
  return out;
}

// Returns the number of the table's columns that fit into the style's width; at least two, or one
// if the table has only one column.
size_t Table::fitting_columns(const Style& style, int indent) const {
  size_t count = columns_.size();
  for (; count > 2; --count) {
    const std::vector<int> all = widths(count, style.width - indent, style);
    if (std::accumulate(all.begin(), all.end(), gaps_of(count)) <= style.width - indent) break;
  }
  return count;
}

std::string Table::text(const Style& style, int indent) const {
  const size_t count = style.window ? fitting_columns(style, indent) : columns_.size();
  const std::vector<int> all_widths = widths(count, style.width - indent, style);
  const int total = std::accumulate(all_widths.begin(), all_widths.end(), gaps_of(count));
  const std::string rule = style.paint(Role::kDim, repeat(style.unicode ? "─" : "-", total));
  const std::string margin = repeat(" ", indent);
  std::string out;
  std::vector<Cell> titles;
  for (size_t i = 0; i < count; ++i) titles.emplace_back(columns_[i].title, Role::kBold);
  const bool has_titles = std::any_of(titles.begin(), titles.end(),
                                      [](const Cell& title) { return !title.text.empty(); });
  if (has_titles) out += cat(lines(titles, all_widths, margin, style), margin, rule, "\n");
  for (const auto& row : rows_) {
    out += row.empty() ? cat(margin, rule, "\n") : lines(row, all_widths, margin, style);
  }
  if (count == columns_.size()) return out;
  std::vector<std::string> left_out;
  for (size_t i = count; i < columns_.size(); ++i) {
    if (!columns_[i].title.empty()) left_out.push_back(columns_[i].title);
  }
  const std::string what = left_out.empty() ? "the last column" : join(left_out, ", ");
  const std::string note = cat(margin, "not shown in this width: ", what);
  return out + style.paint(Role::kDim, fold(note, style)) + "\n";
}

}  // namespace am::term
