// am-calibrate: fits the constants of the time model to measured runs, or evaluates given
// constants, and reports the errors of predictions. Only scripts/calibrate runs this program; it is
// not installed.
#include <CLI/CLI.hpp>
#include <cmath>
#include <map>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/cluster/embedded_files.h"
#include "am/predict/memory/peak_memory.h"
#include "am/term/table.h"
#include "calibrate/calibration_text.h"
#include "calibrate/cross_validation.h"
#include "calibrate/error_scale_fit.h"
#include "calibrate/fit.h"
#include "calibrate/measured_memory.h"
#include "common/command_line.h"
#include "common/output.h"

namespace am_calibrate {
namespace {

struct Options {
  std::string rows;         // CSV file of measured runs; empty: the built-in runs
  std::string output;       // file for the fitted constants; empty: none is written
  bool evaluate = false;    // evaluate constants instead of fitting new ones
  std::string calibration;  // file of the constants to evaluate; empty: the built-in ones
};

struct Line {
  std::string name;
  ErrorSummary errors;
  double inside = 0.0;  // fraction of the runs whose time was inside the predicted interval
};

struct Section {
  std::string title;
  std::vector<Line> lines;
  bool has_intervals = false;  // whether Line::inside is set
};

std::string percent(double share) { return am::format_fixed(100.0 * share, 1); }

// Returns a section of the report: a line of error statistics for each value of `part`, in
// alphabetical order, and a last line for all runs. If some runs are test jobs (functional tests
// with tiny models), the line before the last line is for all other runs.
Section by_part(std::string title, const RunList& runs, const std::vector<double>& errors,
                const std::function<std::string(const MeasuredRun&)>& part) {
  std::map<std::string, std::vector<double>> parts;
  for (size_t i = 0; i < runs.size(); ++i) parts[part(*runs[i])].push_back(errors[i]);
  Section section{std::move(title), {}};
  for (const auto& [name, own] : parts) section.lines.push_back({name, summary(own)});
  std::vector<double> serious;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i]->test_job) serious.push_back(errors[i]);
  }
  if (serious.size() != runs.size()) {
    section.lines.push_back({"all but test jobs", summary(serious)});
  }
  section.lines.push_back({"all", summary(errors)});
  return section;
}

std::string kind_of(const MeasuredRun& run) {
  if (run.test_job) return am::cat(run.workload.implementation->name, " (test jobs)");
  return am::cat(run.workload.implementation->name, " ", run.gpu.architecture);
}

Section memory_section(const MeasuredRuns& runs) {
  RunList list;
  std::vector<double> errors;
  for (const MeasuredRun& run : runs) {
    if (!run.memory_bytes || run.out_of_memory) continue;
    list.push_back(&run);
    errors.push_back(std::log(predicted_bytes(run) / *run.memory_bytes));
  }
  return by_part("peak memory", list, errors, [](const MeasuredRun& run) {
    return am::cat(run.workload.implementation->name, ", ", am::predict::name_of(run.metric));
  });
}

// Returns two counts of wrong predictions: runs that fitted into the GPU's memory but were
// predicted not to fit, and runs that ran out of memory but were predicted to fit.
std::pair<int, int> wrong_verdicts(const MeasuredRuns& runs) {
  std::pair<int, int> wrong = {0, 0};
  for (const MeasuredRun& run : runs) {
    const auto peak = am::predict::worst_peak_memory(run.workload);
    const auto verdict = am::predict::fit_into(*run.workload.implementation, peak.total(), run.gpu);
    if (run.out_of_memory) {
      wrong.second += verdict == am::predict::Fit::kFits ? 1 : 0;
    } else if (run.seconds) {
      wrong.first += verdict == am::predict::Fit::kTooLarge ? 1 : 0;
    }
  }
  return wrong;
}

std::string to_text(const Section& section, const am::term::Style& style) {
  constexpr auto kRight = am::term::Align::kRight;
  std::vector<am::term::Column> columns = {{section.title},
                                           {"runs", kRight},
                                           {"median %", kRight},
                                           {"mean %", kRight},
                                           {"9 in 10 %", kRight}};
  if (section.has_intervals) columns.push_back({"inside %", kRight});
  am::term::Table table(columns);
  for (const Line& line : section.lines) {
    std::vector<am::term::Cell> cells = {line.name.substr(0, 48), am::cat(line.errors.runs),
                                         percent(line.errors.median), percent(line.errors.mean),
                                         percent(line.errors.nine_in_ten)};
    if (section.has_intervals) cells.emplace_back(percent(line.inside));
    table.add(cells);
  }
  return table.text(style) + "\n";
}

// Reads the measured runs of the file options.rows, or the built-in runs. If a row is wrong, or if
// constants must be written but no row has a time, adds an error to `found` and returns nothing.
std::optional<MeasuredRuns> read_runs(const Options& options, am::Diagnostics& found) {
  const bool own = !options.rows.empty();
  const std::string text =
      own ? am::read_file(options.rows) : std::string(am::cluster::measured_file("runs.csv"));
  auto runs =
      am::predict::read_measured_runs(text, own ? options.rows : "plans/measured/runs.csv", found);
  if (found.ok() && timed(runs).empty() && !options.output.empty()) {
    found.error("csv.syntax", am::Span{.file = options.rows}, "no row has a time to fit to",
                "fill the column step_seconds or tokens_per_second_per_gpu; the header of "
                "plans/measured/runs.csv lists all columns");
  }
  return found.ok() ? std::optional(std::move(runs)) : std::nullopt;
}

// Returns a section of the report: a line for each kind (kinds_of()) that has at least nine runs,
// and last a line for all runs. The interval of a run is that of an ErrorScale that was fitted
// without the runs of the same `part`.
Section by_kind(std::string title, const RunList& runs, const std::vector<double>& errors,
                const std::function<std::string(const MeasuredRun&)>& part, const Kinds& kinds) {
  constexpr size_t kFewest = 9;
  const std::vector<bool> inside = inside_interval(runs, errors, part, kinds);
  std::map<std::string, std::vector<size_t>> members;
  std::vector<size_t> all;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& kind : kinds_of(*runs[i])) members[kind].push_back(i);
    all.push_back(i);
  }
  Section section{.title = std::move(title), .lines = {}, .has_intervals = true};
  const auto add = [&](const std::string& name, const std::vector<size_t>& indices) {
    std::vector<double> own;
    double count = 0.0;
    for (const size_t i : indices) {
      own.push_back(errors[i]);
      count += inside[i] ? 1.0 : 0.0;
    }
    section.lines.push_back({name, summary(own), count / static_cast<double>(indices.size())});
  };
  for (const auto& [kind, indices] : members) {
    if (indices.size() >= kFewest) add(kind, indices);
  }
  add("all", all);
  return section;
}

// Returns the report's sections about a fit. Only a fit to the built-in runs has sections by kind
// of run: the intervals of a calibration to a user's own runs (`own`) do not depend on the kind.
std::vector<Section> fitted_sections(const RunList& runs, const Fitted& fitted, bool own) {
  std::vector<Section> sections = {
      by_part("step time, fitted", runs, log_errors(runs, fitted.calibration.constants), kind_of),
      by_part("step time, 5-fold cross-validation over layouts", runs, fitted.of_layouts, kind_of),
      by_part("step time, cross-validation leaving one source out", runs, fitted.of_sources,
              source_of)};
  if (own) return sections;
  sections.push_back(by_kind("cross-validation over layouts, by kind of run", runs,
                             fitted.of_layouts, fold_of_layout, kinds_of));
  const auto add = [&](const char* title, const std::vector<double>& errors, const auto& part) {
    const RunErrors kept = without_tests(runs, errors);
    sections.push_back(by_kind(title, kept.runs, kept.errors, part, kinds_of_new));
  };
  add("leaving one source out, by kind, without test jobs", fitted.of_sources, source_of);
  add("leaving one GPU product out, without test jobs", fitted.of_gpus, product_of_run);
  return sections;
}

int run(const Options& options, const am_apps::Output& output) {
  am::Diagnostics found;
  const auto runs = read_runs(options, found);
  if (!runs.has_value()) return am_apps::refuse(found, output);
  const RunList list = timed(*runs);
  std::vector<Section> sections;
  if (options.evaluate) {
    auto calibration = am::predict::default_calibration();
    if (!options.calibration.empty()) {
      auto own = am::predict::load_calibration(options.calibration, {}, found);
      if (!own) return am_apps::refuse(found, output);
      calibration = *std::move(own);
    }
    const CostConstants& constants = calibration.constants;
    sections.push_back(by_part("step time, by the constants as they are", list,
                               log_errors(list, constants), kind_of));
  } else {
    const bool own = !options.rows.empty();
    const Fitted fitted = own ? calibrate_gpus(list) : calibrate(list);
    if (!options.output.empty()) {
      am::write_file_atomically(options.output, to_toml(fitted.calibration));
    }
    sections = fitted_sections(list, fitted, own);
  }
  sections.push_back(memory_section(*runs));
  const auto [impossible, fitting] = wrong_verdicts(*runs);
  std::string report = am::cat(runs->size(), " runs, ", list.size(), " of them timed\n\n");
  for (const Section& section : sections) report += to_text(section, output.out);
  report += am::cat("runs that fitted but are predicted not to fit: ", impossible,
                    "\nruns that ran out of memory but are predicted to fit: ", fitting, "\n");
  if (!options.output.empty()) report += am::cat("\nwritten: ", options.output, "\n");
  am_apps::print(report);
  return am_apps::kFine;
}

}  // namespace
}  // namespace am_calibrate

int main(int argc, char** argv) {
  am_calibrate::Options options;
  am_apps::CommonFlags flags;
  CLI::App app("Fits the time model to measured runs, and prints its errors", "am-calibrate");
  am_apps::add_color(app, flags);
  app.add_option("ROWS", options.rows, "Measured runs, a CSV file (default: the built-in ones)");
  CLI::Option* file = app.add_option("-o,--output", options.output, "Write the constants here");
  app.add_flag("--evaluate", options.evaluate,
               "Do not fit: compare the constants as they are with ROWS")
      ->excludes(file);
  app.add_option(
         "--calibration", options.calibration,
         "With --evaluate: a file written by an earlier fit, instead of the built-in constants")
      ->needs("--evaluate");
  if (const auto ended = am_apps::parse(app, argc, argv)) return *ended;
  const auto output = am_apps::Output::of(/*json=*/false, flags.color_mode());
  return am_apps::guarded("am-calibrate", output,
                          [&] { return am_calibrate::run(options, output); });
}
