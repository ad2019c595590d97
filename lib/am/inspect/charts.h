// Draws standalone SVG pictures, which contain no scripts, fonts or links and are legible on light
// and dark pages.
#pragma once

#include <string>
#include <vector>

#include "am/inspect/command.h"

namespace am::inspect {

struct ChartBar {
  std::string label;
  double value = 0.0;  // length of the bar; no bar is drawn unless it is positive and finite
  std::string text;    // text right of the bar
};
// Returns a picture of horizontal bars, one per line. The largest bar fills the picture.
std::string bars_svg(const std::string& title, const std::vector<ChartBar>& bars);

// A heat map. Cells are coloured by their value, from `low` (light) to `high` (dark); cells that
// are not finite are marked.
struct Grid {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<double> cells;  // values of the cells, a row-major matrix [height, width]
  double low = 0.0;
  double high = 0.0;

  double at(int64_t row, int64_t column) const {
    return cells[static_cast<size_t>(row * width + column)];
  }
  // Returns where the value of the cell lies between `low` and `high`, from 0 to 1; 0 if low ==
  // high.
  double share(int64_t row, int64_t column) const;
};
std::string grid_svg(const std::string& title, const Grid& grid);

// Implements the option --svg of commands that draw: writes the picture to the file on rank 0 and
// says so in result.text. An existing file is overwritten only with --force.
void write_picture(Session& session, const Arguments& arguments, Result& result);

}  // namespace am::inspect
