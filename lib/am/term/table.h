// One table type for every screen: columns aligned, widths counted in terminal columns.
//
//   Table table({{"parameter"}, {"shape"}, {"bytes", Align::kRight}});
//   table.add({"model.norm.weight", "[4096]", "16.00 KiB"});
//   std::cout << table.text(style);
#pragma once

#include <string>
#include <vector>

#include "am/term/style.h"

namespace am::term {

// kWrap: to the left, and broken between words where the table is wider than the style's width.
enum class Align { kLeft, kRight, kWrap };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

// Text comes from anywhere: control characters in it are not passed on. Colour is the role's.
struct Cell {
  Cell(std::string cell_text, Role cell_role = Role::kPlain)
      : text(std::move(cell_text)), role(cell_role) {}
  Cell(const char* cell_text, Role cell_role = Role::kPlain)
      : Cell(std::string(cell_text), cell_role) {}

  std::string text;
  Role role;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Cells that are left out are empty; more cells than columns are a bug (Error(kInternal)).
  void add(std::vector<Cell> cells);
  // A line across, before a total.
  void add_rule() { rows_.emplace_back(); }
  bool empty() const { return rows_.empty(); }

  // Titles, a line, the rows; two blanks between columns, none at a line's end. Without titles (all
  // empty) only the rows. Every line begins with `indent` blanks and ends with a newline.
  std::string text(const Style& style, int indent = 0) const;

 private:
  std::vector<int> widths(int most) const;
  std::string lines(const std::vector<Cell>& cells, const std::vector<int>& widths,
                    const std::string& margin, const Style& style) const;
  std::string line(const std::vector<Cell>& cells, const std::vector<int>& widths,
                   const Style& style) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;  // an empty row is a rule
};

}  // namespace am::term
