#include "am/inspect/charts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/draw/markup.h"

namespace am::inspect {
namespace {

using draw::escaped;

constexpr double kLine = 18.0;
constexpr double kHead = 44.0;
constexpr double kEdge = 16.0;
constexpr double kLetter = 6.6;  // width of a letter of 11 px, rounded up

constexpr const char* kChartStyle = R"(<style>
text { font: 11px ui-monospace, monospace; fill: #24292f; }
.title { font: 600 14px ui-sans-serif, system-ui, sans-serif; }
.bar { fill: #4c8eda; } .cell { fill: #0b5394; } .bad { fill: #d1242f; }
.frame { fill: none; stroke: #57606a; stroke-opacity: 0.5; }
@media (prefers-color-scheme: dark) { text { fill: #d0d7de; } .cell { fill: #79b8ff; } }
</style>
)";

std::string chart_head(double width, double height, const std::string& title) {
  return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", draw::number(width), " ",
             draw::number(height), "\" width=\"", draw::number(width), "\" height=\"",
             draw::number(height), "\" role=\"img\">\n<title>", escaped(title), "</title>\n",
             kChartStyle, "<text class=\"title\" x=\"", draw::number(kEdge), "\" y=\"24\">",
             escaped(title), "</text>\n");
}

std::string text_line(double x, double y, const std::string& text) {
  return cat("<text x=\"", draw::number(x), "\" y=\"", draw::number(y), "\">", escaped(text),
             "</text>\n");
}

std::string box(const char* kind, double x, double y, double width, double height, double opacity,
                const std::string& tip) {
  return cat("<rect class=\"", kind, "\" x=\"", draw::number(x), "\" y=\"", draw::number(y),
             "\" width=\"", draw::number(width), "\" height=\"", draw::number(height),
             "\" fill-opacity=\"", draw::number(opacity), "\"><title>", escaped(tip),
             "</title></rect>\n");
}

}  // namespace

std::string bars_svg(const std::string& title, const std::vector<ChartBar>& bars) {
  constexpr double kBars = 420.0;
  double largest = 0.0;
  size_t label = 0;
  size_t text = 0;
  for (const ChartBar& bar : bars) {
    if (std::isfinite(bar.value)) largest = std::max(largest, bar.value);
    label = std::max(label, bar.label.size());
    text = std::max(text, bar.text.size());
  }
  const double left = kEdge + static_cast<double>(label) * kLetter + 10.0;
  const double width = left + kBars + static_cast<double>(text) * kLetter + 10.0 + kEdge;
  const double height = kHead + static_cast<double>(bars.size()) * kLine + kEdge;
  std::string out = chart_head(width, height, title);
  for (size_t i = 0; i < bars.size(); ++i) {
    const ChartBar& bar = bars[i];
    const double y = kHead + static_cast<double>(i) * kLine;
    const double length = std::isfinite(bar.value) && bar.value > 0.0 && largest > 0.0
                              ? std::max(0.5, bar.value / largest * kBars)
                              : 0.0;
    out += text_line(kEdge, y + 12.0, bar.label);
    if (length > 0.0) {
      out += box("bar", left, y, length, kLine - 4.0, 1.0, cat(bar.label, ": ", bar.text));
    }
    out += text_line(left + length + 6.0, y + 12.0, bar.text);
  }
  return out + "</svg>\n";
}

double Grid::share(int64_t row, int64_t column) const {
  return high > low ? (at(row, column) - low) / (high - low) : 0.0;
}

std::string grid_svg(const std::string& title, const Grid& grid) {
  constexpr double kCell = 12.0;
  const double width = 2 * kEdge + std::max(400.0, static_cast<double>(grid.width) * kCell);
  const double height = kHead + static_cast<double>(grid.height) * kCell + 2 * kEdge + kLine;
  std::string out = chart_head(width, height, title);
  for (int64_t row = 0; row < grid.height; ++row) {
    for (int64_t column = 0; column < grid.width; ++column) {
      const double value = grid.at(row, column);
      const bool usable = std::isfinite(value);
      out += box(usable ? "cell" : "bad", kEdge + static_cast<double>(column) * kCell,
                 kHead + static_cast<double>(row) * kCell, kCell, kCell,
                 usable ? grid.share(row, column) : 1.0,
                 usable ? format_general(value, 4) : "not finite");
    }
  }
  out += box("frame", kEdge, kHead, static_cast<double>(grid.width) * kCell,
             static_cast<double>(grid.height) * kCell, 1.0, title);
  return out +
         text_line(
             kEdge, height - kEdge,
             cat("light ", format_general(grid.low, 4), ", dark ", format_general(grid.high, 4))) +
         "</svg>\n";
}

void write_picture(Session& session, const Arguments& arguments, Result& result) {
  const auto found = arguments.options.find("--svg");
  if (found == arguments.options.end()) return;
  result.json["svg"] = found->second;
  if (session.view().rank() != 0) return;
  const std::filesystem::path path = session.path(found->second);
  require_free_path(path, arguments.has("--force"));
  write_file_atomically(path, result.svg);
  result.text += cat("wrote ", path.string(), "\n");
}

}  // namespace am::inspect
