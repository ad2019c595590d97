#include "am/draw/timeline_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/draw/markup.h"

namespace am::draw {
namespace {

constexpr double kRowHeight = 26.0;
constexpr double kRowGap = 6.0;
constexpr double kTop = 66.0;
constexpr double kLeft = 70.0;
constexpr double kMargin = 20.0;
constexpr double kShortestPass = 30.0;  // width of the shortest pass in pixels
constexpr double kLegendStep = 130.0;

// Text on the coloured passes is always dark. Other text is light if the reader's system has a dark
// colour scheme.
constexpr const char* kSvgStyle = R"(<style>
text { font: 11px ui-sans-serif, system-ui, sans-serif; fill: #24292f; }
.title { font-size: 14px; font-weight: 600; }
.pass text { text-anchor: middle; fill: #10161d; }
.row { fill: #8c959f; fill-opacity: 0.15; }
.pass rect { stroke: #57606a; stroke-opacity: 0.5; }
.F { fill: #79b8ff; } .B { fill: #7ed69a; } .I { fill: #a8e6b0; } .W { fill: #f0c674; }
@media (prefers-color-scheme: dark) { text { fill: #d0d7de; } }
</style>
)";

struct LegendEntry {
  pipeline::Kind kind;
  const char* text;
};
constexpr std::array<LegendEntry, 4> kLegend = {
    {{pipeline::Kind::kForward, "forward"},
     {pipeline::Kind::kBackward, "backward"},
     {pipeline::Kind::kBackwardInput, "input gradient"},
     {pipeline::Kind::kBackwardWeight, "weight gradient"}}};

class SvgWriter {
 public:
  SvgWriter(const pipeline::Timeline& timeline, const std::string& title)
      : timeline_(timeline), title_(title), horizon_(timeline.makespan) {
    double shortest = std::numeric_limits<double>::infinity();
    std::vector<double> ends;
    for (const auto& events : timeline.ranks) {
      for (const pipeline::Event& event : events) {
        ends.push_back(event.end);
        if (event.end > event.start) shortest = std::min(shortest, event.end - event.start);
      }
    }
    scale_ = std::isfinite(shortest) ? kShortestPass / shortest : 1.0;
    if (ends.size() <= kMostDrawnPasses) return;
    const auto first_left_out = ends.begin() + kMostDrawnPasses;
    std::nth_element(ends.begin(), first_left_out, ends.end());
    horizon_ = std::nextafter(*first_left_out, 0.0);
  }

  std::string write() {
    const double width = std::max(kLeft + horizon_ * scale_, 560.0) + kMargin;
    const double height =
        kTop + static_cast<double>(timeline_.ranks.size()) * (kRowHeight + kRowGap) + 40.0;
    out_ = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", number(width), " ",
               number(height), "\" width=\"", number(width), "\" height=\"", number(height),
               "\" role=\"img\">\n<title>", escaped(title_), "</title>\n", kSvgStyle);
    text(kMargin, 26.0, title_, " class=\"title\"");
    legend();
    for (size_t rank = 0; rank < timeline_.ranks.size(); ++rank) row(rank);
    std::string foot = cat("bubble ", format_fixed(100.0 * timeline_.bubble_fraction, 1),
                           " %, makespan ", format_general(timeline_.makespan, 6));
    if (horizon_ < timeline_.makespan) {
      foot += cat("; drawn up to ", format_general(horizon_, 6), ", at most the first ",
                  kMostDrawnPasses, " passes");
    }
    text(kMargin, height - 16.0, foot, "");
    return out_ + "</svg>\n";
  }

 private:
  void text(double x, double y, std::string_view content, const char* attributes) {
    out_ += cat("<text x=\"", number(x), "\" y=\"", number(y), "\"", attributes, ">",
                escaped(content), "</text>\n");
  }

  void legend() {
    double x = kMargin;
    for (const LegendEntry& entry : kLegend) {
      const bool used = std::any_of(timeline_.ranks.begin(), timeline_.ranks.end(),
                                    [&](const std::vector<pipeline::Event>& events) {
                                      return std::any_of(events.begin(), events.end(),
                                                         [&](const pipeline::Event& event) {
                                                           return event.action.kind == entry.kind;
                                                         });
                                    });
      if (!used) continue;
      out_ += cat("<rect class=\"", to_string(entry.kind), "\" x=\"", number(x),
                  "\" y=\"40\" width=\"12\" height=\"12\" rx=\"2\"/>\n");
      text(x + 18.0, 50.0, cat(to_string(entry.kind), " ", entry.text), "");
      x += kLegendStep;
    }
  }

  void row(size_t rank) {
    const double y = kTop + static_cast<double>(rank) * (kRowHeight + kRowGap);
    text(kMargin, y + 17.0, cat("rank ", rank), "");
    out_ += cat("<rect class=\"row\" x=\"", number(kLeft), "\" y=\"", number(y), "\" width=\"",
                number(horizon_ * scale_), "\" height=\"", number(kRowHeight), "\"/>\n");
    const auto& events = timeline_.ranks[rank];
    for (size_t i = 0; i < events.size() && events[i].end <= horizon_; ++i) {
      // Draws two passes that run at the same time (DualPipeV) one above the other, each at half
      // height.
      const bool upper = i + 1 < events.size() && events[i].start == events[i + 1].start &&
                         events[i].paired && events[i + 1].paired;
      const bool lower = i > 0 && events[i].start == events[i - 1].start && events[i].paired &&
                         events[i - 1].paired;
      const double height = upper || lower ? kRowHeight / 2.0 : kRowHeight;
      pass(events[i], lower ? y + height : y, height);
    }
  }

  void pass(const pipeline::Event& event, double y, double height) {
    const double x = kLeft + event.start * scale_;
    const double width = (event.end - event.start) * scale_;
    const std::string name = to_string(event.action);
    const char* kind = to_string(event.action.kind);
    out_ += cat("<g class=\"pass\"><title>", name, ": stage ", event.action.stage, ", micro-batch ",
                event.action.micro_batch, ", ", format_general(event.start, 6), " to ",
                format_general(event.end, 6), event.paired ? ", overlapped" : "",
                "</title><rect class=\"", kind, "\" x=\"", number(x), "\" y=\"", number(y),
                "\" width=\"", number(width), "\" height=\"", number(height), "\" rx=\"2\"/>");
    // The tooltip always contains the pass's name; the name is drawn only if it fits into the pass.
    constexpr double kCharacter = 6.5;
    if (static_cast<double>(name.size()) * kCharacter <= width) {
      out_ += cat("<text x=\"", number(x + width / 2.0), "\" y=\"", number(y + height / 2.0 + 4.0),
                  "\">", name, "</text>");
    }
    out_ += "</g>\n";
  }

  const pipeline::Timeline& timeline_;
  const std::string& title_;
  double horizon_;      // end of the drawn time; passes that end later are not drawn
  double scale_ = 1.0;  // pixels per unit of the timeline's time
  std::string out_;
};

}  // namespace

std::string timeline_svg(const pipeline::Timeline& timeline, const std::string& title) {
  return SvgWriter(timeline, title).write();
}

}  // namespace am::draw
