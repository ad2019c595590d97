// Standalone SVG pictures: no scripts, fonts or links; legible on light and dark pages.
#pragma once

#include <string>
#include <vector>

#include "am/inspect/command.h"

namespace am::inspect {

struct ChartBar {
  std::string label;
  double value = 0.0;  // no bar unless positive and finite
  std::string text;    // shown behind the bar
};
// Draws horizontal bars, one per line; the largest fills the picture.
std::string bars_svg(const std::string& title, const std::vector<ChartBar>& bars);

// A heat map: cells from `low` (light) to `high` (dark); non-finite cells are marked.
struct Grid {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<double> cells;  // [height, width]
  double low = 0.0;
  double high = 0.0;

  double at(int64_t row, int64_t column) const {
    return cells[static_cast<size_t>(row * width + column)];
  }
  // Relative value, 0 to 1; 0 if all cells are equal.
  double share(int64_t row, int64_t column) const;
};
std::string grid_svg(const std::string& title, const Grid& grid);

// Implements the option --svg of commands that draw: writes the picture on rank 0 and reports it in
// the text. Overwrites an existing file only with --force.
void write_picture(Session& session, const Arguments& arguments, Result& result);

}  // namespace am::inspect
