#include "am/term/line_plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "am/base/text.h"
#include "am/base/units.h"

namespace am::term {
namespace {

// A braille character has two columns and four rows of dots.
constexpr int kDotsAcross = 2;
constexpr int kDotsDown = 4;
constexpr int kDigits = 4;

constexpr std::array<Role, 4> kRoles = {Role::kAccent, Role::kWarning, Role::kNote, Role::kHelp};

// Returns the bit of a dot in a braille character's code; the dot (0, 0) is at the top left.
unsigned dot_bit(int across, int down) {
  constexpr std::array<std::array<unsigned, 4>, 2> kBits = {
      {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
  return kBits[static_cast<size_t>(across)][static_cast<size_t>(down)];
}

std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | (code >> 12U)), static_cast<char>(0x80 | ((code >> 6U) & 0x3FU)),
          static_cast<char>(0x80 | (code & 0x3FU))};
}

// Range of a curve's values in one column of dots, or of characters if no dots are drawn.
struct Span {
  double low = INFINITY, high = -INFINITY;
  bool empty() const { return low > high; }
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::vector<Span> spans_of(const Curve& curve, const PlotRange& range, int columns) {
  std::vector<Span> spans(static_cast<size_t>(columns));
  const double width = range.x_high - range.x_low;
  int last_column = -1;
  double last = 0.0;
  for (size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i) {
    if (!std::isfinite(curve.y[i])) {
      last_column = -1;  // no line connects the points before and after this value
      continue;
    }
    const double share = width > 0.0 ? (curve.x[i] - range.x_low) / width : 0.0;
    const int column = std::clamp(static_cast<int>(share * columns), 0, columns - 1);
    spans[static_cast<size_t>(column)].add(curve.y[i]);
    // Columns between two points get the values of the straight line from point to point.
    for (int between = last_column + 1; last_column >= 0 && between < column; ++between) {
      const double part = static_cast<double>(between - last_column) / (column - last_column);
      spans[static_cast<size_t>(between)].add(last + part * (curve.y[i] - last));
    }
    last_column = column;
    last = curve.y[i];
  }
  return spans;
}

class Canvas {
 public:
  Canvas(int columns, int rows, bool dots)
      : columns_(columns),
        rows_(rows),
        dots_(dots),
        cells_(static_cast<size_t>(columns) * static_cast<size_t>(rows)) {}

  int dots_across() const { return columns_ * (dots_ ? kDotsAcross : 1); }
  int dots_down() const { return rows_ * (dots_ ? kDotsDown : 1); }

  void draw(const std::vector<Span>& spans, const PlotRange& range, int curve) {
    const double height = range.y_high - range.y_low;
    const auto down_of = [&](double value) {
      const double share = height > 0.0 ? (range.y_high - value) / height : 0.5;
      return std::clamp(static_cast<int>(share * dots_down()), 0, dots_down() - 1);
    };
    int before = -1;  // middle dot of the previous column, to which this column is connected
    for (int across = 0; across < dots_across(); ++across) {
      const Span& span = spans[static_cast<size_t>(across)];
      if (span.empty()) {
        before = -1;
        continue;
      }
      int top = down_of(span.high);
      int bottom = down_of(span.low);
      const int middle = (top + bottom) / 2;
      if (before >= 0 && before < top - 1) top = before + 1;
      if (before >= 0 && before > bottom + 1) bottom = before - 1;
      for (int down = top; down <= bottom; ++down) set(across, down, curve);
      before = middle;
    }
  }

  // Returns the cells of a row as text. If `letters`, draws each curve's letter instead of dots.
  std::string row(int row, const Style& style, bool letters) const {
    std::string out;
    for (int column = 0; column < columns_; ++column) {
      const Cell& cell = cells_[index(column, row)];
      if (cell.dots == 0) {
        out += ' ';
      } else if (letters) {
        out += static_cast<char>('a' + cell.curve);
      } else {
        out += style.paint(kRoles[static_cast<size_t>(cell.curve) % kRoles.size()],
                           dots_ ? braille(cell.dots) : "*");
      }
    }
    return out;
  }

 private:
  struct Cell {
    unsigned dots = 0;
    int curve = 0;
  };
  size_t index(int column, int row) const {
    return static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }
  void set(int across, int down, int curve) {
    Cell& cell =
        dots_ ? cells_[index(across / kDotsAcross, down / kDotsDown)] : cells_[index(across, down)];
    cell.dots |= dots_ ? dot_bit(across % kDotsAcross, down % kDotsDown) : 1U;
    cell.curve = curve;
  }

  int columns_;
  int rows_;
  bool dots_;
  std::vector<Cell> cells_;
};

std::string right_trimmed(std::string text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace

PlotRange PlotRange::of(std::span<const Curve> curves) {
  PlotRange range;
  for (const Curve& curve : curves) {
    for (size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i) {
      const double x = curve.x[i], y = curve.y[i];
      if (!std::isfinite(y)) continue;
      if (range.empty) range = {x, x, y, y, false};
      range.x_low = std::min(range.x_low, x);
      range.x_high = std::max(range.x_high, x);
      range.y_low = std::min(range.y_low, y);
      range.y_high = std::max(range.y_high, y);
    }
  }
  return range;
}

std::string line_plot(std::span<const Curve> curves, int rows, const Style& style) {
  const PlotRange range = PlotRange::of(curves);
  if (range.empty) return "no finite values\n";
  const auto label = [](double value) { return format_general(value, kDigits); };
  const std::string top = label(range.y_high);
  const std::string middle = rows % 2 == 1 ? label((range.y_low + range.y_high) / 2) : "";
  const std::string bottom = label(range.y_low);
  const int margin = static_cast<int>(std::max({top.size(), middle.size(), bottom.size()})) + 2;
  const int columns = std::max(8, style.width - margin - 1);
  const bool letters = curves.size() > 1 && !style.color;
  Canvas canvas(columns, rows, style.unicode && !letters);
  for (size_t i = 0; i < curves.size(); ++i) {
    canvas.draw(spans_of(curves[i], range, canvas.dots_across()), range, static_cast<int>(i));
  }
  const char* edge = style.unicode ? "│" : "|";
  std::string out;
  for (int row = 0; row < rows; ++row) {
    const std::string text = row == 0              ? top
                             : row == rows - 1     ? bottom
                             : 2 * row == rows - 1 ? middle
                                                   : "";
    out += pad_left(text, margin - 1) + style.paint(Role::kDim, edge) +
           right_trimmed(canvas.row(row, style, letters)) + "\n";
  }
  const std::string first = label(range.x_low), last = label(range.x_high);
  const int gap = columns - static_cast<int>(first.size() + last.size());
  out += repeat(" ", margin) + first + repeat(" ", std::max(1, gap)) + last + "\n";
  if (curves.size() == 1) return out;
  std::vector<std::string> names;
  for (size_t i = 0; i < curves.size(); ++i) {
    const std::string mark = letters ? std::string(1, static_cast<char>('a' + i)) : "──";
    names.push_back(cat(style.paint(kRoles[i % kRoles.size()], mark), " ", curves[i].name));
  }
  return out + repeat(" ", margin) + join(names, "   ") + "\n";
}

std::string sparkline(std::span<const double> values, int columns, const Style& style) {
  static constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::string_view kAscii = "_.-~=+*#";
  const size_t count = std::min(values.size(), static_cast<size_t>(std::max(columns, 0)));
  const std::span<const double> shown = values.last(count);
  Span range;
  for (const double value : shown) {
    if (std::isfinite(value)) range.add(value);
  }
  std::string out;
  for (const double value : shown) {
    if (!std::isfinite(value)) {
      out += '!';
      continue;
    }
    const double height = range.high - range.low;
    const double share = height > 0.0 ? (value - range.low) / height : 0.0;
    const auto level = static_cast<size_t>(std::clamp(share * 8.0, 0.0, 7.0));
    out += style.unicode ? std::string(kBlocks[level]) : std::string(1, kAscii[level]);
  }
  return out;
}

}  // namespace am::term
