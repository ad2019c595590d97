#include "am/term/table.h"

#include <algorithm>
#include <numeric>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/term/printable.h"

namespace am::term {
namespace {

constexpr int kGap = 2;

}  // namespace

void Table::add(std::vector<Cell> cells) {
  AM_ASSERT(cells.size() <= columns_.size(), "a table row has more cells than columns");
  for (Cell& cell : cells) cell.text = printable(cell.text);
  cells.resize(columns_.size(), Cell(""));
  rows_.push_back(std::move(cells));
}

std::vector<int> Table::widths() const {
  std::vector<int> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    int width = display_width(columns_[i].title);
    for (const auto& row : rows_) {
      if (!row.empty()) width = std::max(width, display_width(row[i].text));
    }
    widths.push_back(width);
  }
  return widths;
}

std::string Table::line(const std::vector<Cell>& cells, const std::vector<int>& widths,
                        const Style& style) const {
  std::string out;
  int blanks = 0;  // owed; those at the end are never paid
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

std::string Table::text(const Style& style, int indent) const {
  const std::vector<int> all_widths = widths();
  const int total = std::accumulate(all_widths.begin(), all_widths.end(), 0) +
                    kGap * std::max(0, static_cast<int>(columns_.size()) - 1);
  const std::string rule = style.paint(Role::kDim, repeat(style.unicode ? "─" : "-", total));
  const std::string margin = repeat(" ", indent);
  std::string out;
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title, Role::kBold);
  const bool has_titles = std::any_of(columns_.begin(), columns_.end(),
                                      [](const Column& column) { return !column.title.empty(); });
  if (has_titles) out += cat(margin, line(titles, all_widths, style), "\n", margin, rule, "\n");
  for (const auto& row : rows_) {
    out += cat(margin, row.empty() ? rule : line(row, all_widths, style), "\n");
  }
  return out;
}

}  // namespace am::term
