#include "am/term/table.h"

#include <algorithm>
#include <numeric>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/term/printable.h"
#include "am/term/wrap.h"

namespace am::term {
namespace {

constexpr int kGap = 2;
constexpr size_t kLongestCell = 20'000;

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

}  // namespace

void Table::add(std::vector<Cell> cells) {
  AM_ASSERT(cells.size() <= columns_.size(), "a table row has more cells than columns");
  for (Cell& cell : cells) cell.text = printable(shortened(cell.text, kLongestCell));
  cells.resize(columns_.size(), Cell(""));
  rows_.push_back(std::move(cells));
}

// Returns the columns' widths. If their sum exceeds `most`, narrows the widest wrapping columns,
// first down to their longest word, then further.
std::vector<int> Table::widths(int most) const {
  constexpr int kNarrowest = 10;
  std::vector<int> widths;
  std::vector<int> words;
  for (size_t i = 0; i < columns_.size(); ++i) {
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
  const int gaps = kGap * std::max(0, static_cast<int>(columns_.size()) - 1);
  narrow(widths, words, most - gaps);
  for (size_t i = 0; i < words.size(); ++i) {
    if (columns_[i].align == Align::kWrap) words[i] = std::min(words[i], kNarrowest);
  }
  narrow(widths, words, most - gaps);
  return widths;
}

std::string Table::line(const std::vector<Cell>& cells, const std::vector<int>& widths,
                        const Style& style) const {
  std::string out;
  int blanks = 0;  // blanks to write before the next text; dropped at the end of the line
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

// Returns the text of one row of the table, which has the number of lines of its longest cell.
std::string Table::lines(const std::vector<Cell>& cells, const std::vector<int>& widths,
                         const std::string& margin, const Style& style) const {
  std::vector<std::vector<std::string>> parts;
  size_t count = 1;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool fits = display_width(cells[i].text) <= widths[i];
    parts.push_back(fits ? std::vector{cells[i].text}
                         : wrap(cells[i].text, widths[i], /*breaks_words=*/true));
    count = std::max(count, parts.back().size());
  }
  std::string out;
  for (size_t n = 0; n < count; ++n) {
    std::vector<Cell> row;
    for (size_t i = 0; i < cells.size(); ++i) {
      row.emplace_back(n < parts[i].size() ? parts[i][n] : std::string(), cells[i].role);
    }
    out += cat(margin, line(row, widths, style), "\n");
  }
  return out;
}

std::string Table::text(const Style& style, int indent) const {
  const std::vector<int> all_widths = widths(style.width - indent);
  const int total = std::accumulate(all_widths.begin(), all_widths.end(), 0) +
                    kGap * std::max(0, static_cast<int>(columns_.size()) - 1);
  const std::string rule = style.paint(Role::kDim, repeat(style.unicode ? "─" : "-", total));
  const std::string margin = repeat(" ", indent);
  std::string out;
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title, Role::kBold);
  const bool has_titles = std::any_of(columns_.begin(), columns_.end(),
                                      [](const Column& column) { return !column.title.empty(); });
  if (has_titles) out += cat(lines(titles, all_widths, margin, style), margin, rule, "\n");
  for (const auto& row : rows_) {
    out += row.empty() ? cat(margin, rule, "\n") : lines(row, all_widths, margin, style);
  }
  return out;
}

}  // namespace am::term
