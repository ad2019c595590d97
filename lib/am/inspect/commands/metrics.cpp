// Defines the commands `metrics` and `compare`, which read run folders without opening weights.
// Also defines the curves that `plot` draws, from metrics or from the rows before a pipe.
#include "am/observe/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/plan.h"
#include "am/inspect/charts.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/rows.h"
#include "am/inspect/runs.h"
#include "am/observe/metric_series.h"
#include "am/run_folder/job_record.h"
#include "am/term/line_plot.h"

namespace am::inspect {
namespace {

constexpr int kPlotRows = 12;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Throws Error(kUsage) if `key` is the loss of a validation set, but no run's plan contains this
// validation set.
void require_set(const Runs& runs, const std::string& key) {
  if (!starts_with(key, observe::kValidationPrefix)) return;
  std::vector<std::string> legal;
  for (const auto& run : runs) {
    for (std::string& each : validation_keys(run)) {
      if (std::find(legal.begin(), legal.end(), each) == legal.end())
        legal.push_back(std::move(each));
    }
  }
  if (std::find(legal.begin(), legal.end(), key) != legal.end()) return;
  throw Error(ErrorKind::kUsage,
              cat("`", key, "` names a validation set that no plan of the open runs has"),
              legal.empty() ? "name another metric: no plan has a [[validation.set]]"
                            : cat("legal: ", join(legal, ", ")));
}

std::vector<std::string> keys_of(const Runs& runs, const Arguments& arguments,
                                 std::vector<std::string> otherwise) {
  std::vector<std::string> keys;
  for (const std::string& word : arguments.words) {
    keys.push_back(observe::metric_key(word));
    require_set(runs, keys.back());
  }
  return keys.empty() ? std::move(otherwise) : keys;
}

bool has_value(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double each) { return std::isfinite(each); });
}

void draw_boxes(const std::vector<CurveBox>& boxes, const term::Style& style, Result& result) {
  for (const CurveBox& box : boxes) {
    result.text += style.paint(term::Role::kBold, box.title) + "\n" +
                   term::line_plot(box.curves, kPlotRows, style);
  }
  result.svg = curves_svg(boxes);
}

// Returns the number under `key` of each row; NaN for a row without a number.
std::vector<double> column(const Json& rows, const std::string& key) {
  std::vector<double> values;
  for (const Json& row : rows) values.push_back(number_in(row, key));
  return values;
}

// Adds the values of a plan's JSON to `out`, under "section.key". A value may be a table.
void flatten(const Json& value, const std::string& prefix, std::map<std::string, Json>& out) {
  for (const auto& [key, each] : value.items()) {
    const std::string name = prefix.empty() ? key : cat(prefix, ".", key);
    if (each.is_object() && prefix.empty()) {
      flatten(each, name, out);
    } else {
      out[name] = each;
    }
  }
}

std::map<std::string, Json> plan_keys(const run_folder::RunFolder& run) {
  std::map<std::string, Json> keys;
  Diagnostics ignored;
  if (const auto plan = config::load_draft(run.plan_file(), {}, ignored)) {
    flatten(config::to_json(*plan), {}, keys);
  }
  return keys;
}

// Returns a row for each key in which the runs' plans differ.
Json differences(const Runs& runs) {
  std::vector<std::map<std::string, Json>> plans;
  std::map<std::string, Json> all;
  for (const auto& run : runs) {
    plans.push_back(plan_keys(run));
    all.insert(plans.back().begin(), plans.back().end());
  }
  Json rows = Json::array();
  for (const auto& [key, ignored] : all) {
    Json values = Json::array();
    for (const auto& plan : plans) {
      const auto found = plan.find(key);
      values.push_back(found == plan.end() ? Json(nullptr) : found->second);
    }
    const bool equal = std::all_of(values.begin(), values.end(),
                                   [&](const Json& each) { return each == values.front(); });
    if (!equal) rows.push_back({{"key", key}, {"values", std::move(values)}});
  }
  return rows;
}

double last_value(const std::vector<double>& values) {
  for (size_t i = values.size(); i-- > 0;) {
    if (std::isfinite(values[i])) return values[i];
  }
  return kNan;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double each) { return !std::isfinite(each); });
  if (values.empty()) return kNan;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result run_metrics(const Runs& runs, const Arguments& arguments, const term::Style& style) {
  const auto& run = runs.front();
  const auto series =
      observe::read_series(run.metrics_file(), keys_of(runs, arguments, observe::metric_keys()));
  std::vector<size_t> shown;
  for (size_t i = 0; i < series.keys.size(); ++i) {
    if (!arguments.words.empty() || has_value(series.values[i])) shown.push_back(i);
  }
  Json rows = Json::array();
  for (size_t line = 0; line < series.steps.size(); ++line) {
    Json row = {{"step", static_cast<int64_t>(series.steps[line])}};
    for (const size_t i : shown) row[series.keys[i]] = number_or_null(series.values[i][line]);
    rows.push_back(std::move(row));
  }
  Result result;
  constexpr size_t kShown = 20;
  Json last = Json::array();
  for (size_t i = rows.size() - std::min(rows.size(), kShown); i < rows.size(); ++i) {
    last.push_back(rows[i]);
  }
  std::vector<RowColumn> columns = {{"step", {}, RowKind::kCount}};
  // If the command line names no keys, the table has only the columns in kUsual.
  for (const size_t i : shown) {
    const std::string& key = series.keys[i];
    constexpr std::array<std::string_view, 6> kUsual = {
        "loss", "grad_norm", "lr", "step_seconds", "tokens_per_second", "validation_loss"};
    const bool usual = std::find(kUsual.begin(), kUsual.end(), key) != kUsual.end();
    if (usual || !arguments.words.empty()) columns.push_back({key, {}, RowKind::kNumber});
  }
  result.text = draw_rows(last, columns, style, 5);
  if (rows.size() > last.size()) {
    result.text += style.paint(term::Role::kDim,
                               cat("the last ", last.size(), " of ", format_count(rows.size()),
                                   " steps; `metrics | head 20` shows the first")) +
                   "\n";
  }
  result.json = {{"run", run.root().string()}, {"metrics", std::move(rows)}};
  return result;
}

namespace {

// Reads the metrics `keys` of each run.
std::vector<observe::MetricSeries> read_all(const Runs& runs,
                                            const std::vector<std::string>& keys) {
  std::vector<observe::MetricSeries> all;
  for (const auto& run : runs) all.push_back(observe::read_series(run.metrics_file(), keys));
  return all;
}

// Draws one plot per key, with a curve for each run. `all`: one MetricSeries for each run, whose
// values begin with those of `keys`.
Result curves_of(const Runs& runs, const std::vector<observe::MetricSeries>& all,
                 const std::vector<std::string>& keys, const term::Style& style) {
  const std::vector<std::string> names = run_names(runs);
  Result result;
  std::vector<CurveBox> boxes;
  for (const std::string& key : keys) boxes.push_back({key, {}});
  result.json = {{"of", keys}, {"curves", Json::array()}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const observe::MetricSeries& series = all[i];
    for (size_t k = 0; k < keys.size(); ++k) {
      boxes[k].curves.push_back({names[i], series.steps, series.values[k]});
      const auto range = term::PlotRange::of({&boxes[k].curves.back(), 1});
      result.json["curves"].push_back({{"run", runs[i].root().string()},
                                       {"key", keys[k]},
                                       {"steps", series.steps.size()},
                                       {"min", range.empty ? Json(nullptr) : Json(range.y_low)},
                                       {"max", range.empty ? Json(nullptr) : Json(range.y_high)},
                                       {"last", number_or_null(last_value(series.values[k]))}});
    }
  }
  draw_boxes(boxes, style, result);
  return result;
}

}  // namespace

Result plot_metrics(const Runs& runs, const Arguments& arguments, const term::Style& style) {
  const std::vector<std::string> keys = keys_of(runs, arguments, {"loss"});
  return curves_of(runs, read_all(runs, keys), keys, style);
}

Result plot_rows(const Json& rows, const Arguments& arguments, const term::Style& style) {
  std::vector<std::string> keys = arguments.words;
  for (const RowColumn& each : columns_of(rows)) {
    if (arguments.words.empty() && each.kind != RowKind::kText && each.key != "step") {
      keys.push_back(each.key);
    }
  }
  std::vector<double> x = column(rows, "step");
  if (!has_value(x)) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = as_double(i + 1);
  }
  std::vector<CurveBox> boxes;
  for (const std::string& key : keys) boxes.push_back({key, {{key, x, column(rows, key)}}});
  Result result;
  draw_boxes(boxes, style, result);
  return result;
}

Result run_compare(const Runs& runs, const Arguments& arguments, const term::Style& style) {
  if (runs.size() < 2) {
    throw Error(ErrorKind::kUsage, "`compare` needs two runs or more",
                "am-repl RUN1 RUN2 -c compare");
  }
  const std::vector<std::string> drawn = keys_of(runs, arguments, {"loss"});
  std::vector<std::string> keys = drawn;  // keys of the curves, then keys of the table
  for (const char* key : {"loss", "validation_loss", "tokens_per_second", "step_seconds"}) {
    keys.emplace_back(key);
  }
  const auto all = read_all(runs, keys);
  Result result = curves_of(runs, all, drawn, style);
  const std::string curves = std::exchange(result.text, {});
  const std::vector<std::string> names = run_names(runs);
  Json rows = Json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& steps = all[i].steps;
    const auto values = [&](size_t key) -> const auto& {
      return all[i].values[drawn.size() + key];
    };
    double best = kNan, seconds = 0.0;
    for (const double each : values(1)) {
      if (std::isfinite(each) && !(each >= best)) best = each;
    }
    for (const double each : values(3)) seconds += std::isfinite(each) ? each : 0.0;
    rows.push_back({{"run", names[i]},
                    {"steps", steps.empty() ? 0 : static_cast<int64_t>(steps.back())},
                    {"loss", number_or_null(last_value(values(0)))},
                    {"best_validation_loss", number_or_null(best)},
                    {"tokens_per_second", number_or_null(median(values(2)))},
                    {"step_seconds", seconds}});
  }
  result.text += draw_rows(rows,
                           {{"run", {}, RowKind::kText},
                            {"steps", {}, RowKind::kCount},
                            {"loss", {}, RowKind::kNumber},
                            {"best_validation_loss", "best validation", RowKind::kNumber},
                            {"tokens_per_second", "tok/s", RowKind::kNumber},
                            {"step_seconds", "seconds of steps", RowKind::kNumber}},
                           style, 5);
  const Json differing = differences(runs);
  if (!differing.empty()) {
    std::vector<RowColumn> columns = {{"key", {}, RowKind::kText}};
    for (const std::string& name : names) columns.push_back({name, {}, RowKind::kText});
    Json shown = Json::array();
    for (const Json& each : differing) {
      Json row = {{"key", each["key"]}};
      for (size_t i = 0; i < names.size(); ++i) row[names[i]] = dump_json(each["values"][i], -1);
      shown.push_back(std::move(row));
    }
    result.text += "\n" + draw_rows(shown, columns, style, 5);
  } else {
    result.text += "the plans are equal\n";
  }
  result.text += "\n" + curves;
  result.json["runs"] = std::move(rows);
  result.json["differences"] = differing;
  return result;
}

}  // namespace am::inspect
