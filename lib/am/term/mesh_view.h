// Draws a mesh: pipeline stages side by side, nodes as boxes, ranks in rows and columns.
//
//   pp 0                pp 1
//   ┌ node 0 ────────┐  ┌ node 1 ────────┐
//   │       tp0  tp1 │  │       tp0  tp1 │
//   │ dp 0    0    1 │  │ dp 0    8    9 │
//   │ dp 1    2    3 │  │ dp 1   10   11 │
//   └────────────────┘  └────────────────┘
//
// The caller supplies the cells' texts, so draw_grid() does not depend on the types of meshes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "am/term/style.h"

namespace am::term {

struct GridBox {
  std::string title;
  std::vector<std::string> columns;             // titles of the columns; may be empty
  std::vector<std::string> rows;                // titles of the rows; may be empty
  std::vector<std::vector<std::string>> cells;  // texts, as cells[row][column]
  std::string corner = {};                      // text above the row titles
};

// A column of boxes, one below the other, under a title.
struct GridStack {
  std::string title;
  std::vector<GridBox> boxes;
};

struct GridLimits {
  int rows = 16;  // maximum number of drawn rows per box; the middle of a longer box is omitted
  int boxes = 8;  // maximum number of drawn boxes per stack
  int stacks = 16;
};

// Draws as many stacks side by side as fit into the style's width, and further stacks below them. A
// box that is too wide shows the common words of its column titles only once, above the row titles,
// and omits columns in the middle if necessary. If stacks are omitted, the last line states their
// number.
std::string draw_grid(std::span<const GridStack> stacks, const Style& style,
                      const GridLimits& limits = {});

}  // namespace am::term
