#include "job/dry_run_report.h"

#include <algorithm>
#include <vector>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/term/bars.h"
#include "am/term/table.h"
#include "am/term/wrap.h"

namespace am_run {

using namespace am;

std::string dry_run_text(const Json& report, const term::Style& style) {
  const auto peak = report.at("peak_bytes").get<int64_t>();
  std::vector<term::Bar> bars;
  for (const auto& [use, bytes] : report.at("components").items()) {
    bars.push_back({use, bytes.get<double>(), format_bytes(bytes.get<int64_t>())});
  }
  term::Table table({{"collective"},
                     {"group"},
                     {"count", term::Align::kRight},
                     {"bytes", term::Align::kRight},
                     {"each", term::Align::kRight}});
  for (const Json& each : report.at("collectives")) {
    const auto bytes = each.at("bytes").get<int64_t>();
    const auto count = each.at("count").get<int64_t>();
    table.add({each.at("op").get<std::string>(), each.at("group").get<std::string>(), cat(count),
               format_bytes(bytes), format_bytes(bytes / count)});
  }
  std::string text =
      cat("rank ", report.at("rank").get<int64_t>(), " of ", report.at("world_size").get<int64_t>(),
          ": ", style.paint(term::Role::kBold, format_bytes(peak)), " of tensors at the peak");
  if (const auto predicted = report.find("predicted_bytes"); predicted != report.end()) {
    const double off =
        100.0 * (predicted->get<double>() / static_cast<double>(std::max<int64_t>(1, peak)) - 1.0);
    text += cat("; am-plan predicts ", format_bytes(predicted->get<int64_t>()), " (",
                off < 0 ? "" : "+", format_fixed(off, 1), " %)");
  }
  text = cat(term::fold(text, style), "\n\n", term::bars(bars, 24, style));
  if (const int64_t host = report.value("host_bytes", int64_t{0}); host > 0) {
    text += cat(format_bytes(host), " more in host memory\n");
  }
  std::vector<std::string> phases;
  for (const Json& each : report.at("phases")) {
    phases.push_back(cat(format_bytes(each.at("live_bytes").get<int64_t>()), " after ",
                         each.at("phase").get<std::string>()));
  }
  text += term::fold(cat("\nalive: ", join(phases, ", "), "\n"), style);
  if (!table.empty()) text += "\n" + table.text(style);
  return text;
}

}  // namespace am_run
