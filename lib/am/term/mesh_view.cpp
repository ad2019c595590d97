#include "am/term/mesh_view.h"

#include <algorithm>

#include "am/base/text.h"
#include "am/term/printable.h"

namespace am::term {
namespace {

using Lines = std::vector<std::string>;

struct Pen {
  const char* top_left;
  const char* top_right;
  const char* bottom_left;
  const char* bottom_right;
  const char* across;
  const char* down;
};

constexpr Pen kUnicodePen = {"┌", "┐", "└", "┘", "─", "│"};
constexpr Pen kAsciiPen = {"+", "+", "+", "+", "-", "|"};

int widest(const Lines& lines) {
  int width = 0;
  for (const std::string& line : lines) width = std::max(width, visible_width(line));
  return width;
}

// Returns the text lines of a box: the column titles, then each row with its title and its cells.
// All cells have equal width. In a box of more than `limit` rows, one line replaces the rows in the
// middle.
Lines box_rows(const GridBox& box, const Style& style, int limit) {
  int title_width = display_width(box.corner), cell_width = 0;
  for (const std::string& title : box.rows)
    title_width = std::max(title_width, display_width(title));
  for (const std::string& title : box.columns)
    cell_width = std::max(cell_width, display_width(title));
  for (const auto& row : box.cells) {
    for (const std::string& cell : row) cell_width = std::max(cell_width, display_width(cell));
  }
  const std::string gap = title_width > 0 ? "  " : "";
  const auto row_text = [&](const std::string& title, const Lines& cells, Role role) {
    std::string out = style.paint(Role::kDim, pad_right(printable(title), title_width)) + gap;
    for (size_t i = 0; i < cells.size(); ++i) {
      out += (i > 0 ? "  " : "") + style.paint(role, pad_left(printable(cells[i]), cell_width));
    }
    return out;
  };
  Lines lines;
  if (!box.columns.empty()) lines.push_back(row_text(box.corner, box.columns, Role::kDim));
  const int count = static_cast<int>(box.cells.size());
  limit = std::max(3, limit);  // at least the first row, the gap and the last row
  const int head = count <= limit ? count : limit - 2;
  for (int i = 0; i < count; ++i) {
    if (i == head && count > limit) {
      lines.push_back(style.paint(Role::kDim, cat("... ", count - head - 1, " more rows")));
      i = count - 1;
    }
    const auto row = static_cast<size_t>(i);
    lines.push_back(
        row_text(row < box.rows.size() ? box.rows[row] : "", box.cells[row], Role::kPlain));
  }
  return lines;
}

// If the column titles agree in all words but the last, moves the common words to the box's corner,
// above the row titles. For example, the titles "shard 0" and "shard 1" become "0" and "1", with
// "shard" above the row titles.
GridBox with_short_titles(GridBox box) {
  if (box.columns.empty()) return box;
  const std::string& first = box.columns.front();
  const std::string word = first.substr(0, first.find_last_of(' ') + 1);
  const auto has_word = [&](const std::string& title) { return starts_with(title, word); };
  if (word.empty() || !std::all_of(box.columns.begin(), box.columns.end(), has_word)) return box;
  for (std::string& title : box.columns) title.erase(0, word.size());
  box.corner = word.substr(0, word.size() - 1);
  return box;
}

// Replaces the cells between the first `head` cells and the last cell by "..", if there are
// several.
void leave_out_middle(Lines& cells, size_t head) {
  if (cells.size() <= head + 2) return;
  cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(head), cells.end() - 1);
  cells.insert(cells.end() - 1, "..");
}

// Returns the text lines of a box. If the lines are wider than the style's width, shortens the
// column titles; if this does not suffice, also omits columns, except the first and the last.
Lines fitting_rows(const GridBox& box, const Style& style, int row_limit) {
  constexpr int kFrame = 4;
  const auto fits = [&](const Lines& rows) { return widest(rows) + kFrame <= style.width; };
  Lines rows = box_rows(box, style, row_limit);
  if (fits(rows)) return rows;
  const GridBox narrow = with_short_titles(box);
  rows = box_rows(narrow, style, row_limit);
  const size_t columns = narrow.cells.empty() ? 0 : narrow.cells.front().size();
  for (size_t head = columns; head-- > 1 && !fits(rows);) {
    GridBox cut = narrow;
    leave_out_middle(cut.columns, head);
    for (Lines& cells : cut.cells) leave_out_middle(cells, head);
    rows = box_rows(cut, style, row_limit);
  }
  return rows;
}

Lines draw_box(const GridBox& box, const Style& style, int row_limit) {
  const Pen& pen = style.unicode ? kUnicodePen : kAsciiPen;
  const Lines rows = fitting_rows(box, style, row_limit);
  const std::string title = box.title.empty() ? "" : cat(" ", printable(box.title), " ");
  const int inner = std::max(widest(rows) + 2, display_width(title) + 1);
  const auto dim = [&](const std::string& text) { return style.paint(Role::kDim, text); };
  Lines lines;
  lines.push_back(dim(pen.top_left) + style.paint(Role::kBold, title) +
                  dim(repeat(pen.across, inner - display_width(title)) + pen.top_right));
  for (const std::string& row : rows) {
    lines.push_back(cat(dim(pen.down), " ", pad_right(row, inner - 2), " ", dim(pen.down)));
  }
  lines.push_back(dim(pen.bottom_left + repeat(pen.across, inner) + pen.bottom_right));
  return lines;
}

Lines draw_stack(const GridStack& stack, const Style& style, const GridLimits& limits) {
  Lines lines;
  if (!stack.title.empty()) lines.push_back(style.paint(Role::kBold, printable(stack.title)));
  const size_t shown = std::min(stack.boxes.size(), static_cast<size_t>(std::max(1, limits.boxes)));
  for (size_t i = 0; i < shown; ++i) {
    const Lines box = draw_box(stack.boxes[i], style, limits.rows);
    lines.insert(lines.end(), box.begin(), box.end());
  }
  if (shown < stack.boxes.size()) {
    lines.push_back(
        style.paint(Role::kDim, cat("... ", stack.boxes.size() - shown, " more boxes")));
  }
  return lines;
}

std::string side_by_side(std::span<const Lines> parts) {
  constexpr int kGap = 2;
  size_t height = 0;
  for (const Lines& part : parts) height = std::max(height, part.size());
  std::string out;
  for (size_t row = 0; row < height; ++row) {
    std::string line;
    int owed = 0;
    for (const Lines& part : parts) {
      const std::string& text = row < part.size() ? part[row] : std::string();
      if (!text.empty()) {
        line += repeat(" ", owed) + text;
        owed = 0;
      }
      owed += widest(part) - visible_width(text) + kGap;
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string draw_grid(std::span<const GridStack> stacks, const Style& style,
                      const GridLimits& limits) {
  constexpr int kGap = 2;
  const size_t shown = std::min(stacks.size(), static_cast<size_t>(std::max(1, limits.stacks)));
  std::string out;
  std::vector<Lines> row;
  int width = 0;
  for (size_t i = 0; i < shown; ++i) {
    Lines stack = draw_stack(stacks[i], style, limits);
    const int needed = widest(stack) + (row.empty() ? 0 : kGap);
    if (!row.empty() && width + needed > style.width) {
      out += side_by_side(row) + "\n";
      row.clear();
      width = 0;
    }
    width += widest(stack) + (row.empty() ? 0 : kGap);
    row.push_back(std::move(stack));
  }
  out += side_by_side(row);
  if (shown < stacks.size()) {
    out += style.paint(Role::kDim, cat("... ", stacks.size() - shown, " more")) + "\n";
  }
  return out;
}

}  // namespace am::term
