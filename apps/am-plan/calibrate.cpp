// am-plan calibrate [ROWS.csv]: fits the constants to measured runs and says how far off held-out
// runs are.
#include "am/planner/cost/calibrate.h"

#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/planner/cost/facts.h"
#include "am/planner/cost/measured_runs.h"
#include "am/planner/cost/peak_memory.h"
#include "am/term/table.h"
#include "commands.h"
#include "options.h"
#include "text.h"

namespace am_plan {
namespace {

struct Options {
  std::string rows;       // empty: the built-in runs
  std::string output;     // empty: nothing is written
  bool evaluate = false;  // no fit
};

using am::planner::ErrorSummary;
using am::planner::MeasuredRun;
using am::planner::RunList;

struct Line {
  std::string name;
  ErrorSummary errors;
};

struct Section {
  std::string title;
  std::vector<Line> lines;
};

std::string percent(double share) { return am::format_fixed(100.0 * share, 1); }

// One line for each value of `part`, in its order, and one for all.
Section by_part(std::string title, const RunList& runs, const std::vector<double>& errors,
                const std::function<std::string(const MeasuredRun&)>& part) {
  std::map<std::string, std::vector<double>> parts;
  for (size_t i = 0; i < runs.size(); ++i) parts[part(*runs[i])].push_back(errors[i]);
  Section section{std::move(title), {}};
  for (const auto& [name, own] : parts) section.lines.push_back({name, am::planner::summary(own)});
  std::vector<double> serious;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i]->test_job) serious.push_back(errors[i]);
  }
  if (serious.size() != runs.size()) {
    section.lines.push_back({"all but test jobs", am::planner::summary(serious)});
  }
  section.lines.push_back({"all", am::planner::summary(errors)});
  return section;
}

std::string kind_of(const MeasuredRun& run) {
  if (run.test_job) return am::cat(run.job.implementation->name, " (test jobs)");
  return am::cat(run.job.implementation->name, " ", run.gpu.architecture);
}

Section memory_section(const am::planner::MeasuredRuns& runs) {
  RunList list;
  std::vector<double> errors;
  for (const MeasuredRun& run : runs) {
    if (!run.memory_bytes || run.out_of_memory) continue;
    list.push_back(&run);
    errors.push_back(std::log(am::planner::predicted_memory(run) / *run.memory_bytes));
  }
  return by_part("peak memory", list, errors, [](const MeasuredRun& run) {
    return am::cat(run.job.implementation->name, ", ", am::planner::name_of(run.metric));
  });
}

// Runs that fitted and are called impossible; runs that ran out of memory and are called fitting.
std::pair<int, int> wrong_verdicts(const am::planner::MeasuredRuns& runs) {
  std::pair<int, int> wrong = {0, 0};
  for (const MeasuredRun& run : runs) {
    const auto peak = am::planner::worst_peak_memory(run.job);
    const auto verdict = am::planner::fit_into(*run.job.implementation, peak.total(), run.gpu);
    if (run.out_of_memory) {
      wrong.second += verdict == am::planner::Fit::kFits ? 1 : 0;
    } else if (run.seconds) {
      wrong.first += verdict == am::planner::Fit::kTooLarge ? 1 : 0;
    }
  }
  return wrong;
}

am::Json to_json(const Section& section) {
  am::Json lines = am::Json::array();
  for (const Line& line : section.lines) {
    lines.push_back({{"name", line.name},
                     {"runs", line.errors.runs},
                     {"median", line.errors.median},
                     {"mean", line.errors.mean},
                     {"nine_in_ten", line.errors.nine_in_ten}});
  }
  return {{"title", section.title}, {"lines", std::move(lines)}};
}

std::string to_text(const Section& section, const am::term::Style& style) {
  am::term::Table table({{section.title},
                         {"runs", am::term::Align::kRight},
                         {"median %", am::term::Align::kRight},
                         {"mean %", am::term::Align::kRight},
                         {"9 in 10 %", am::term::Align::kRight}});
  for (const Line& line : section.lines) {
    table.add({line.name.substr(0, 48), am::cat(line.errors.runs), percent(line.errors.median),
               percent(line.errors.mean), percent(line.errors.nine_in_ten)});
  }
  return table.text(style) + "\n";
}

int run(const Options& options, const Output& output) {
  am::Diagnostics found;
  const bool own = !options.rows.empty();
  const std::string text =
      own ? am::read_file(options.rows) : std::string(am::planner::measured_fact("runs.csv"));
  const auto runs =
      am::planner::read_measured_runs(text, own ? options.rows : "plans/measured/runs.csv", found);
  const RunList timed = am::planner::timed(runs);
  if (found.ok() && timed.empty() && options.output.size() > 0) {
    found.error("csv.syntax", am::Span{.file = options.rows}, "no row has a time to fit to",
                "columns step_seconds or tokens_per_second_per_gpu; the header of "
                "plans/measured/runs.csv names all");
  }
  if (!found.ok()) return am_apps::refuse(found, output);

  std::vector<Section> sections;
  am::planner::Calibration calibration = am::planner::default_calibration();
  if (options.evaluate) {
    sections.push_back(by_part("step time, by the constants as they are", timed,
                               am::planner::log_errors(timed, calibration.constants), kind_of));
  } else {
    calibration = am::planner::calibrate(runs);
    sections.push_back(by_part("step time, fitted", timed,
                               am::planner::log_errors(timed, calibration.constants), kind_of));
    sections.push_back(by_part(
        "step time, five folds over layouts", timed,
        am::planner::held_out_errors(timed, am::planner::fold_of_layout, calibration.constants),
        kind_of));
    sections.push_back(
        by_part("step time, each source left out", timed,
                am::planner::held_out_errors(timed, am::planner::source_of, calibration.constants),
                am::planner::source_of));
  }
  sections.push_back(memory_section(runs));
  const auto [impossible, fitting] = wrong_verdicts(runs);
  if (!options.output.empty()) {
    am::write_file_atomically(options.output, am::planner::to_toml(calibration));
  }
  if (output.json) {
    am::Json json = am::Json::object();
    json["runs"] = runs.size();
    json["timed"] = timed.size();
    for (const Section& section : sections) json["tables"].push_back(to_json(section));
    json["fitted_but_called_impossible"] = impossible;
    json["out_of_memory_but_called_fitting"] = fitting;
    am_apps::print(json);
    return am_apps::kFine;
  }
  std::string report = am::cat(runs.size(), " runs, ", timed.size(), " of them timed\n\n");
  for (const Section& section : sections) report += to_text(section, output.out);
  report += am::cat("runs that fitted and are called impossible: ", impossible,
                    "\nruns that ran out of memory and are called fitting: ", fitting, "\n");
  if (!options.output.empty()) report += am::cat("\nwritten: ", options.output, "\n");
  print_folded(report, output.out);
  return am_apps::kFine;
}

Run declare(CLI::App& command, SharedOptions& shared) {
  auto options = std::make_shared<Options>();
  add_option(command, {"ROWS", "CSV", "Measured runs (default: the built-in ones)"}, options->rows);
  add_output(command, "Write the constants here", options->output);
  add_flag(command, "--evaluate", "Do not fit: compare the constants as they are with ROWS",
           options->evaluate);
  add_json(command, shared);
  return [options](const Output& output) { return run(*options, output); };
}

}  // namespace

const Command kCalibrateCommand = {
    .name = "calibrate",
    .summary = "Fit the time model to measured runs; say how far off it is",
    .example = "am-plan calibrate runs.csv -o mine.toml",
    .declare = declare,
};

}  // namespace am_plan
