#include "am/inspect/dashboard.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/control/frame.h"
#include "am/inspect/rows.h"
#include "am/observe/metric_series.h"
#include "am/term/bars.h"
#include "am/term/table.h"
#include "am/term/wrap.h"

namespace am::inspect {
namespace {

// Returns the JSON of a command's answer; throws the command's error.
Json answer_of(Interpreter& interpreter, const std::string& command) {
  const Outcome outcome = interpreter.run(command);
  if (outcome.error) throw outcome.error->as_error();
  return outcome.result.json;
}

// Returns, for example, "step 812 of 20 000, backward, loss 2.3145, 1.2 s per step, 6:23:46 left".
// For a model with experts, the text also contains the numbers of tokens of the idlest and of the
// busiest expert, divided by the mean over all experts: "experts 0.25x to 1.50x".
std::string summary(const Json& status) {
  const double step = number_in(status, "step");
  const double last = number_in(status, "max_steps");
  const double seconds = number_in(status, "step_seconds");
  std::string text = cat("step ", format_count(static_cast<int64_t>(step)));
  if (last > 0) text += cat(" of ", format_count(static_cast<int64_t>(last)));
  text += cat(", ", control::text_in(status, "phase"));
  if (const double loss = number_in(status, "loss"); !std::isnan(loss)) {
    text += cat(", loss ", format_fixed(loss, 4));
  }
  if (!std::isnan(seconds)) text += cat(", ", format_step_time(seconds), " per step");
  if (const double rate = number_in(status, "tokens_per_second"); !std::isnan(rate)) {
    text += cat(", ", format_short_count(rate), " tokens per second");
  }
  if (const auto load = status.find("expert_load"); load != status.end() && load->is_object()) {
    text += cat(", experts ", format_fixed(number_in(*load, "min_over_mean"), 2), "x to ",
                format_fixed(number_in(*load, "max_over_mean"), 2), "x");
  }
  if (const double left = number_in(status, "seconds_left"); !std::isnan(left)) {
    text += cat(", ", format_duration(left), " left");
  }
  return text;
}

struct Row {
  Json rank;   // the rank's entry in the answer of `ranks`
  Json times;  // the rank's entry in the answer of `stragglers`; null if there is none

  bool silent() const { return control::text_in(rank, "state") != "answers"; }
  bool slow() const { return times.is_object() && times.at("slow").is_string(); }
};

std::vector<Row> rows_of(const DashboardData& data) {
  std::map<int64_t, Json> times;
  if (data.stragglers.is_object()) {
    for (const Json& each : data.stragglers.at("ranks")) times[each.at("rank")] = each;
  }
  std::vector<Row> rows;
  for (const Json& each : data.ranks.at("ranks")) {
    const auto found = times.find(each.at("rank").get<int64_t>());
    rows.push_back({each, found == times.end() ? Json() : found->second});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(!a.silent(), !a.slow()) < std::pair(!b.silent(), !b.slow());
  });
  return rows;
}

// Returns the rank's phase, or the collective in which it waits; for a silent rank, its state.
std::string doing(const Row& row) {
  if (row.silent()) return control::text_in(row.rank, "state");
  const std::string collective = control::text_in(row.rank, "collective");
  if (collective.empty()) return control::text_in(row.rank, "phase");
  return cat(collective, ", ", format_duration(number_in(row.rank, "seconds")));
}

std::string rank_table(const std::vector<Row>& rows, size_t count, const term::Style& style) {
  constexpr int kBar = 12;
  term::Table table({{"rank", term::Align::kRight},
                     {"step", term::Align::kRight},
                     {"memory", term::Align::kRight},
                     {"own time", term::Align::kLeft},
                     {"waiting", term::Align::kRight},
                     {"where"}});
  for (size_t i = 0; i < count; ++i) {
    const Row& row = rows[i];
    const term::Role role = row.silent() ? term::Role::kError
                            : row.slow() ? term::Role::kWarning
                                         : term::Role::kPlain;
    std::string own, waiting;
    if (row.times.is_object()) {
      const double waits = number_in(row.times, "waiting");
      const double works = number_in(row.times, "compute") + number_in(row.times, "data") +
                           number_in(row.times, "saving");
      own = cat(term::pad_right(term::bar({.value = works}, kBar,
                                          term::Style{.unicode = style.unicode}, works + waits),
                                kBar),
                " ", format_step_time(works));
      waiting = format_step_time(waits);
    }
    const auto number = [&](const char* key) { return number_in(row.rank, key); };
    const double step = number("step");
    const double memory = number("memory_bytes");
    table.add({{cat(row.rank.at("rank").get<int64_t>()), role},
               std::isnan(step) ? "" : cat(static_cast<int64_t>(step)),
               std::isnan(memory) ? "" : format_bytes(static_cast<int64_t>(memory)),
               {own, row.slow() ? term::Role::kWarning : term::Role::kPlain},
               waiting,
               {doing(row), role}});
  }
  return table.text(style);
}

int lines_of(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

void DashboardData::read_losses(const std::filesystem::path& metrics) {
  if (!std::filesystem::exists(metrics)) return;
  const observe::MetricSeries series = observe::read_series(metrics, {"loss"});
  loss = {"loss", series.steps, series.values.front()};
}

void DashboardData::update(Interpreter& interpreter) {
  status = answer_of(interpreter, "status");
  title = interpreter.facts().title;  // the answer of `status` has updated the title
  // The job refuses `ranks` if too many earlier commands still wait for the ranks, for example
  // because many dashboards are open. The previous answer is then kept.
  const Outcome doing = interpreter.run("ranks");
  if (!doing.error) ranks = doing.result.json;
  if (ranks.is_null()) throw doing.error->as_error();
  // If ranks are missing, `stragglers` is not run and its previous answer is kept. The missing
  // ranks would delay the answer, and no step ends without these ranks, so there are no new times.
  if (ranks.at("missing").empty()) {
    const Outcome times = interpreter.run("stragglers");
    stragglers = times.error ? Json() : times.result.json;
  }
  const double step = number_in(status, "step");
  const double now = number_in(status, "loss");
  if (std::isnan(now) || (!loss.x.empty() && loss.x.back() >= step)) return;
  loss.x.push_back(step);
  loss.y.push_back(now);
}

Json DashboardData::to_json() const {
  return {{"status", status},
          {"ranks", ranks.at("ranks")},
          {"stragglers", stragglers.is_object() ? stragglers.at("ranks") : Json::array()},
          {"losses", loss.y.size()},
          {"text", ranks.at("text")}};
}

std::string dashboard_text(const DashboardData& data, int rows, const term::Style& style) {
  constexpr int kLeastPlot = 5;
  std::string head = term::fold(style.paint(term::Role::kBold, data.title) + "\n", style);
  head += term::fold(summary(data.status) + "\n", style);
  if (const std::string by = control::text_in(data.status, "paused"); !by.empty()) {
    head += term::fold(style.paint(term::Role::kWarning, cat("paused by ", by)) + "\n", style);
  }
  const std::vector<Row> all = rows_of(data);
  const bool any_slow =
      std::any_of(all.begin(), all.end(), [](const Row& row) { return row.slow(); });
  const std::string foot = term::fold((any_slow ? control::text_in(data.stragglers, "text") : "") +
                                          control::text_in(data.ranks, "text"),
                                      style);
  constexpr int kTableHead = 2;
  const int room = rows - lines_of(head) - lines_of(foot) - kTableHead;
  const int wanted = static_cast<int>(all.size());
  // The plot fills the lines that the table of ranks leaves free, at least kLeastPlot lines. The
  // plot is omitted if the curve has fewer than two points or if there is too little room.
  const bool plots = data.loss.x.size() > 1 && room >= kLeastPlot + 2;
  const int listed =
      std::max(1, plots ? std::min(wanted, room - kLeastPlot - 1) : std::min(wanted, room));
  const bool cut = listed < wanted;
  const int shown = cut ? std::max(1, listed - 1) : listed;
  std::string text = head;
  if (plots) {
    const std::vector<term::Curve> curves = {data.loss};
    text += term::line_plot(curves, room - listed - 1, style);
  }
  text += rank_table(all, static_cast<size_t>(shown), style);
  if (cut) text += cat("and ", wanted - shown, " more ranks\n");
  return text + foot;
}

}  // namespace am::inspect
