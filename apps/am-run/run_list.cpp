// am-run ls [FOLDER]: lists the runs in a folder.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "am/base/home.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/plan.h"
#include "am/control/place.h"
#include "am/observe/metric_series.h"
#include "am/run_folder/job_record.h"
#include "am/run_folder/run_folder.h"
#include "am/term/line_plot.h"
#include "am/term/table.h"
#include "common/command_line.h"
#include "common/output.h"
#include "job.h"

namespace am_run {

namespace {

using namespace am;
namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Lists the runs in a folder (default: runs), the latest first: state, steps, loss, and its "
    "curve.\n\n"
    "Examples:\n"
    "  am-run ls\n"
    "  am-run ls experiments --json";

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  const run_folder::RunFolder run(folder);
  return fs::exists(run.plan_file(), ignored) &&
         (fs::exists(run.metrics_file(), ignored) || fs::exists(run.result_file(), ignored));
}

// Returns "running", "finished", "stopped" (on request or by train.max_time, before the last step),
// "failed", or "ended" (the files do not record how).
std::string state_of(const run_folder::RunFolder& run,
                     const std::optional<run_folder::JobRecord>& record) {
  try {
    if (control::find_job(run)) return "running";
  } catch (const Error&) {
    // The address file is damaged, so no client could attach.
  }
  if (record && record->ended) return record->stopped ? "stopped" : "finished";
  if (record && !record->cause.is_null()) return "failed";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run.logs(), ignored)) {
    if (ends_with(entry.path().filename().string(), ".error.json")) return "failed";
  }
  return "ended";
}

// Returns the Unix time in seconds of the last change to a run's metrics, result or plan; 0 if no
// time is known.
double changed_at(const run_folder::RunFolder& run) {
  double latest = 0.0;
  for (const fs::path& file : {run.metrics_file(), run.result_file(), run.plan_file()}) {
    std::error_code missing;
    const auto time = fs::last_write_time(file, missing);
    if (missing) continue;
    const auto since = std::chrono::file_clock::to_sys(time).time_since_epoch();
    latest = std::max(latest, std::chrono::duration<double>(since).count());
  }
  return latest;
}

struct Listed {
  Json json;
  std::vector<double> losses;
  double changed = 0.0;
};

Listed listed(const fs::path& folder) {
  const run_folder::RunFolder run(folder);
  const auto record = run_folder::read_record(run);
  Listed out;
  out.changed = changed_at(run);
  Diagnostics ignored;
  std::string model;
  Json max_steps = nullptr;
  if (const auto plan = config::load_draft(run.plan_file(), {}, ignored)) {
    model = plan->resolve(plan->model.path).filename().string();
    if (model == "config.json") model = plan->resolve(plan->model.path).parent_path().filename();
    max_steps = plan->train.max_steps;
  }
  Json loss = nullptr, validation = nullptr, steps = 0;
  std::error_code missing;
  if (fs::exists(run.metrics_file(), missing)) {
    const auto series = observe::read_series(run.metrics_file(), {"loss", "validation_loss"});
    if (!series.steps.empty()) steps = static_cast<int64_t>(series.steps.back());
    for (const double each : series.values[0]) loss = std::isfinite(each) ? Json(each) : Json();
    for (const double each : series.values[1]) {
      if (std::isfinite(each)) validation = each;
    }
    out.losses = series.values[0];
  }
  out.json = {{"run", folder.string()},         {"model", model},
              {"state", state_of(run, record)}, {"steps", steps},
              {"max_steps", max_steps},         {"loss", loss},
              {"validation_loss", validation},  {"changed", out.changed}};
  return out;
}

std::string number_text(const Json& value) {
  return value.is_number() ? format_general(value.get<double>(), 5) : "-";
}

// Returns a sparkline of at most `columns` values. Each value is the mean of consecutive losses.
std::string curve(const std::vector<double>& losses, size_t columns, const term::Style& style) {
  std::vector<double> means;
  const size_t count = std::min(columns, losses.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * losses.size() / count, end = (i + 1) * losses.size() / count;
    double sum = 0.0;
    for (size_t each = begin; each < end; ++each) sum += losses[each];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  return term::sparkline(means, static_cast<int>(columns), style);
}

std::string table_of(const std::vector<Listed>& runs, const term::Style& style) {
  using enum term::Align;
  constexpr size_t kCurve = 16;
  term::Table table({{"run", kWrap},
                     {"model", kWrap},
                     {"state"},
                     {"steps", kRight},
                     {"loss", kRight},
                     {"validation", kRight},
                     {"", kLeft}});
  for (const Listed& run : runs) {
    const std::string state = run.json["state"];
    const auto role = state == "running"  ? term::Role::kAccent
                      : state == "failed" ? term::Role::kError
                                          : term::Role::kPlain;
    table.add({run.json["run"].get<std::string>(),
               run.json["model"].get<std::string>(),
               {state, role},
               cat(run.json["steps"].get<int64_t>(), "/",
                   run.json["max_steps"].is_null() ? "?" : run.json["max_steps"].dump()),
               number_text(run.json["loss"]),
               number_text(run.json["validation_loss"]),
               curve(run.losses, kCurve, style)});
  }
  return table.text(style);
}

int list(const fs::path& folder, const am_apps::Output& output) {
  if (!fs::is_directory(folder)) {
    throw Error(ErrorKind::kIo, cat(folder.string(), ": no such folder"),
                "am-run ls FOLDER, where FOLDER has run folders");
  }
  std::vector<Listed> runs;
  const auto add = [&](const fs::path& path) {
    if (is_run(path)) runs.push_back(listed(path));
  };
  add(folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) add(entry.path());
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Listed& a, const Listed& b) { return a.changed > b.changed; });
  if (output.json) {
    Json all = Json::array();
    for (const Listed& run : runs) all.push_back(run.json);
    am_apps::print(Json{{"ok", true}, {"runs", std::move(all)}});
  } else {
    am_apps::print(runs.empty() ? cat(folder.string(), ": no runs\n") : table_of(runs, output.out));
  }
  return am_apps::kFine;
}

}  // namespace

int run_list(int argc, char** argv) {
  std::string folder = "runs";
  am_apps::CommonFlags flags;
  CLI::App app(kDescription, "am-run ls");
  app.add_option("FOLDER", folder, "The folder whose runs are listed (default: runs)");
  am_apps::add_json(app, flags,
                    "One object on stdout: {\"ok\", \"runs\": [{\"run\", \"model\", \"state\", "
                    "\"steps\", \"max_steps\", \"loss\", \"validation_loss\", \"changed\"}]}");
  am_apps::add_color(app, flags);
  if (const auto status = am_apps::parse(app, argc, argv)) return *status;
  const auto output = am_apps::Output::of(flags.json, flags.color_mode());
  return am_apps::guarded("am-run ls", output, [&] { return list(expand_home(folder), output); });
}

}  // namespace am_run
