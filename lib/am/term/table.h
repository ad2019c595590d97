// Text table with aligned columns. Widths are numbers of terminal columns.
//
//   Table table({{"parameter"}, {"shape"}, {"bytes", Align::kRight}});
//   table.add({"model.norm.weight", "[4096]", "16.00 KiB"});
//   std::cout << table.text(style);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/term/style.h"

namespace am::term {

// Alignment of a column. kWrap is left-aligned. If the table is wider than the style's width, the
// cells of kWrap columns are wrapped between words. In a window (Style::window), the cells of kLeft
// columns are also shortened by short_name(), as long as different names stay different. If this
// does not suffice in a window, the last columns are omitted, and a line below the table names
// them.
enum class Align { kLeft, kRight, kWrap };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

// Returns a name in at most `width` columns. Abbreviates the components from the left to their
// first letters until the name fits: "model.layers.10.mlp.up_proj.weight" becomes
// "m.l.10.mlp.up_proj.weight", for example. Does not abbreviate numbers or the last two
// components. If the name is still too wide, replaces its middle by "…", or by "~" in an ASCII
// locale.
std::string short_name(std::string_view name, int width, const Style& style);

// Text and role of a cell. Table::add() replaces control characters in the text; the role sets the
// colour.
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

  // Adds a row. Missing cells are empty; more cells than columns throw Error(kInternal).
  void add(std::vector<Cell> cells);
  // Adds a horizontal line, for example before a total.
  void add_rule() { rows_.emplace_back(); }
  bool empty() const { return rows_.empty(); }

  // Returns titles, a horizontal line, and the rows, with two blanks between columns and without
  // blanks at line ends. If all titles are empty, returns only the rows. Every line starts with
  // `indent` blanks and ends with a newline.
  std::string text(const Style& style, int indent = 0) const;

 private:
  int least_name_width(size_t column, int least, const Style& style) const;
  std::vector<int> widths(size_t count, int most, const Style& style) const;
  size_t fitting_columns(const Style& style, int indent) const;
  std::string lines(const std::vector<Cell>& cells, const std::vector<int>& widths,
                    const std::string& margin, const Style& style) const;
  std::string line(const std::vector<Cell>& cells, const std::vector<int>& widths,
                   const Style& style) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;  // an empty row is a horizontal line
};

}  // namespace am::term
