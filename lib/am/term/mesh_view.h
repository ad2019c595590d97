// A mesh as a picture: pipeline stages side by side, nodes as boxes, ranks in rows and columns.
//
//   pp 0                  pp 1
//   ┌ node 0 ────────┐    ┌ node 1 ────────┐
//   │       tp0  tp1 │    │       tp0  tp1 │
//   │ dp 0    0    1 │    │ dp 0    8    9 │
//   │ dp 1    2    3 │    │ dp 1   10   11 │
//   └────────────────┘    └────────────────┘
//
// The caller says what stands in the cells; this file knows nothing of meshes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "am/term/style.h"

namespace am::term {

struct GridBox {
  std::string title;
  std::vector<std::string> columns;             // titles; may be empty
  std::vector<std::string> rows;                // titles; may be empty
  std::vector<std::vector<std::string>> cells;  // [row][column]
  std::string corner = {};                      // above the rows' titles
};

// Boxes that stand one under another.
struct GridStack {
  std::string title;
  std::vector<GridBox> boxes;
};

struct GridLimits {
  int rows = 16;  // of a box; the middle of a longer one is left out
  int boxes = 8;  // of a stack
  int stacks = 16;
};

// The stacks side by side, as many as fit in the style's width, further ones below. A box that is
// wider says the common word of its columns' titles once, then shows fewer columns. What was left
// out below is counted in a line of its own.
std::string draw_grid(std::span<const GridStack> stacks, const Style& style,
                      const GridLimits& limits = {});

}  // namespace am::term
