#include "am/inspect/charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "am/base/file.h"
#include "am/base/home.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/draw/markup.h"

namespace am::inspect {
namespace {

using draw::escaped;

constexpr double kLine = 18.0;
constexpr double kHead = 44.0;
constexpr double kEdge = 16.0;
constexpr double kLetter = 6.6;  // width of a letter in pixels, rounded up, at a font size of 11 px

constexpr const char* kChartStyle = R"(<style>
text { font: 11px ui-monospace, monospace; fill: #24292f; }
.title { font: 600 14px ui-sans-serif, system-ui, sans-serif; }
.bar { fill: #4c8eda; } .cell { fill: #0b5394; } .warm { fill: #bf5b04; } .bad { fill: #d1242f; }
.frame { fill: none; stroke: #57606a; stroke-opacity: 0.5; }
@media (prefers-color-scheme: dark) { text { fill: #d0d7de; } .cell { fill: #79b8ff; } .warm { fill: #f0883e; } }
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
      const double largest = grid.largest();
      const double opacity = !grid.diverging ? grid.share(row, column)
                             : largest > 0.0 ? std::abs(value) / largest
                                             : 0.0;
      const char* kind = grid.diverging && value > 0.0 ? "warm" : "cell";
      out += box(usable ? kind : "bad", kEdge + static_cast<double>(column) * kCell,
                 kHead + static_cast<double>(row) * kCell, kCell, kCell, usable ? opacity : 1.0,
                 usable ? format_general(value, 4) : "not finite");
    }
  }
  out += box("frame", kEdge, kHead, static_cast<double>(grid.width) * kCell,
             static_cast<double>(grid.height) * kCell, 1.0, title);
  const std::string legend =
      grid.diverging
          ? cat("blue ", format_general(-grid.largest(), 4), ", white 0, orange ",
                format_general(grid.largest(), 4))
          : cat("light ", format_general(grid.low, 4), ", dark ", format_general(grid.high, 4));
  return out + text_line(kEdge, height - kEdge, legend) + "</svg>\n";
}

namespace {

constexpr double kPlotWidth = 640.0;
constexpr double kPlotHeight = 180.0;
constexpr std::array<const char*, 4> kCurveColours = {"#2f81f7", "#e16f24", "#1a7f37", "#a371f7"};

// Returns the curve as polylines, each as the text of SVG's attribute "points". For each pixel
// column, only the lowest and the highest point are kept. A polyline ends at a value that is not
// finite.
std::vector<std::string> polylines(const term::Curve& curve, const term::PlotRange& range,
                                   double left, double top) {
  const double width = std::max(range.x_high - range.x_low, 1e-300);
  const double height = std::max(range.y_high - range.y_low, 1e-300);
  std::vector<std::string> lines;
  std::string line;
  double column = -1.0, low = 0.0, high = 0.0;
  const auto y_of = [&](double y) { return top + (range.y_high - y) / height * kPlotHeight; };
  const auto flush = [&] {
    if (column < 0.0) return;
    line +=
        cat(line.empty() ? "" : " ", draw::number(left + column), ",", draw::number(y_of(high)));
    if (low < high) line += cat(" ", draw::number(left + column), ",", draw::number(y_of(low)));
    column = -1.0;
  };
  for (size_t i = 0; i < curve.y.size(); ++i) {
    const double y = curve.y[i];
    if (!std::isfinite(y)) {
      flush();
      if (!line.empty()) lines.push_back(std::exchange(line, {}));
      continue;
    }
    const double at = std::floor((curve.x[i] - range.x_low) / width * kPlotWidth);
    if (at != column) {
      flush();
      column = at;
      low = high = y;
    }
    low = std::min(low, y);
    high = std::max(high, y);
  }
  flush();
  if (!line.empty()) lines.push_back(line);
  return lines;
}

}  // namespace

std::string curves_svg(const std::vector<CurveBox>& boxes) {
  constexpr double kLeft = 80.0, kBelow = 52.0;
  const double height = static_cast<double>(boxes.size()) * (kHead + kPlotHeight + kBelow);
  std::string titles;
  for (const CurveBox& box : boxes) titles += cat(titles.empty() ? "" : ", ", box.title);
  std::string out = chart_head(kLeft + kPlotWidth + 2 * kEdge, height, titles);
  double top = kHead;
  for (const CurveBox& box : boxes) {
    const term::PlotRange range = term::PlotRange::of(box.curves);
    if (boxes.size() > 1) out += text_line(kLeft, top - 6.0, box.title);
    out += cat("<rect class=\"frame\" x=\"", draw::number(kLeft), "\" y=\"", draw::number(top),
               "\" width=\"", draw::number(kPlotWidth), "\" height=\"", draw::number(kPlotHeight),
               "\"/>\n");
    if (range.empty) out += text_line(kLeft + 8.0, top + 20.0, "no finite values");
    for (size_t i = 0; i < box.curves.size() && !range.empty; ++i) {
      const char* colour = kCurveColours[i % kCurveColours.size()];
      for (const std::string& points : polylines(box.curves[i], range, kLeft, top)) {
        out += cat("<polyline points=\"", points, "\" fill=\"none\" stroke=\"", colour,
                   "\" stroke-width=\"1.5\"><title>", escaped(box.curves[i].name),
                   "</title></polyline>\n");
      }
      if (box.curves.size() == 1) continue;
      const double x = kLeft + static_cast<double>(i) * 160.0;
      out += cat("<rect x=\"", draw::number(x), "\" y=\"", draw::number(top + kPlotHeight + 28.0),
                 "\" width=\"14\" height=\"3\" fill=\"", colour, "\"/>\n",
                 text_line(x + 20.0, top + kPlotHeight + 34.0, box.curves[i].name));
    }
    if (!range.empty) {
      out += text_line(kEdge, top + 10.0, format_general(range.y_high, 4));
      out += text_line(kEdge, top + kPlotHeight, format_general(range.y_low, 4));
      out += text_line(kLeft, top + kPlotHeight + 16.0, format_general(range.x_low, 6));
      const std::string last = format_general(range.x_high, 6);
      out += text_line(kLeft + kPlotWidth - static_cast<double>(last.size()) * kLetter,
                       top + kPlotHeight + 16.0, last);
    }
    top += kHead + kPlotHeight + kBelow;
  }
  return out + "</svg>\n";
}

namespace {

void write_picture_to(const std::filesystem::path& path, bool forced, Result& result) {
  require_free_path(path, forced);
  write_file_atomically(path, result.svg);
  result.text += cat("wrote ", path.string(), "\n");
}

}  // namespace

void write_picture(Session& session, const Arguments& arguments, Result& result) {
  const auto found = arguments.options.find("--svg");
  if (found == arguments.options.end()) return;
  result.json["svg"] = found->second;
  if (session.view().rank() != 0) return;
  write_picture_to(session.path(found->second), arguments.has("--force"), result);
}

void write_picture(const Arguments& arguments, Result& result) {
  const auto found = arguments.options.find("--svg");
  if (found == arguments.options.end()) return;
  result.json["svg"] = found->second;
  write_picture_to(expand_home(found->second), arguments.has("--force"), result);
}

}  // namespace am::inspect
