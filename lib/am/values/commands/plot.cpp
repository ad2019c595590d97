#include <cmath>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/charts.h"
#include "am/term/bars.h"
#include "am/values/commands/by_layer.h"
#include "am/values/commands/functions.h"

namespace am::values {
namespace {

struct Plotted {
  const char* name;
  double (*of)(const Moments& moments);
};

constexpr Plotted kPlotted[] = {
    {"norm", [](const Moments& moments) { return moments.norm(); }},
    {"rms", [](const Moments& moments) { return moments.rms(); }},
    {"max", [](const Moments& moments) { return moments.max_abs(); }},
    {"std", [](const Moments& moments) { return moments.std(); }},
};

}  // namespace

Result run_plot(Session& session, const Arguments& arguments) {
  const Plotted& plotted = arguments.one_of(kPlotted, "--of", "rms");
  const bool folded = by_layer(arguments);
  const MomentRows all = named_moments(session, arguments);
  Result result;
  Json list = Json::array();
  std::vector<term::Bar> bars;
  std::vector<inspect::ChartBar> chart;
  for (const auto& [name, moments] : all.rows) {
    const double value = plotted.of(moments);
    list.push_back({{"name", name}, {plotted.name, number_or_null(value)}});
    const std::string text =
        std::isfinite(value) ? format_general(value, session.digits()) : "not finite";
    bars.push_back({name, value, text});
    chart.push_back({name, value, text});
  }
  result.json = {{"of", plotted.name}, {"parameters", list}};
  const std::string title = cat(plotted.name, folded ? " by layer" : " by tensor");
  result.text = cat(title, "\n", term::bars(bars, 40, session.style()));
  result.svg = inspect::bars_svg(title, chart);
  all.unread.give(result);
  write_picture(session, arguments, result);
  return result;
}

}  // namespace am::values
