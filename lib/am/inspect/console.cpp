#include "am/inspect/console.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "am/base/date.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/home.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/draw/markup.h"
#include "am/inspect/charts.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/rows.h"
#include "am/inspect/runs.h"
#include "am/inspect/words.h"
#include "am/observe/metric_series.h"
#include "am/run_folder/job_record.h"
#include "am/term/wrap.h"

namespace am::inspect {
namespace {

constexpr int kDeepestSource = 10;
// Largest total size of the answers that are kept for report(), in bytes. Older answers are
// dropped.
constexpr size_t kMostRemembered = size_t{16} << 20;

// Throws Error(kUsage) unless the session has runs.
void require_runs(const Runs& runs, const std::string& command) {
  if (!runs.empty()) return;
  throw Error(ErrorKind::kUsage, cat("`", command, "` reads a run folder, and none is open"),
              "am-repl RUN, where RUN has a metrics.jsonl");
}

// Replaces `answer` by the entries of the lists that its rows contain under the key `nested`. Each
// entry begins with the other fields of its outer row. Returns the entries, which are the new rows.
Json* flatten(Json& answer, const Json& rows, const std::string& nested) {
  Json flat = Json::array();
  for (const Json& outer : rows) {
    Json fields = outer;
    fields.erase(nested);
    for (const Json& inner : outer.at(nested)) {
      flat.push_back(fields);
      flat.back().update(inner);
    }
  }
  answer = {{nested, std::move(flat)}};
  return &answer[nested];
}

}  // namespace

void Console::apply(Outcome& outcome, const std::string& stage) const {
  const ParsedCommand parsed = parse_filter(stage);
  const auto* filter = parsed.command->as<BehindPipe>();
  Json* rows = rows_in(outcome.result.json);
  if (rows == nullptr) {
    throw Error(
        ErrorKind::kUsage, cat("`", outcome.command, "` prints no rows"),
        cat("`", parsed.command->name, "` needs the rows of a command such as ls or stats"));
  }
  const Command* command = find_command(outcome.command);
  if (outcome.filters.empty() && command != nullptr && !command->nested_rows.empty()) {
    rows = flatten(outcome.result.json, *rows, std::string(command->nested_rows));
  }
  outcome.filters.emplace_back(parsed.command->name);
  if (filter != nullptr) {
    RowTable& table = outcome.result.table;
    filter->function(*rows, table, parsed.arguments);
    outcome.result.text = draw_rows(table.shown.is_null() ? *rows : table.shown,
                                    table.columns.empty() ? columns_of(*rows) : table.columns,
                                    options_.style, table.digits);
    return;
  }
  Result picture = parsed.command->of_rows(*rows, parsed.arguments, options_.style);
  outcome.result.text = std::move(picture.text);
  outcome.result.svg = std::move(picture.svg);
}

namespace {

std::string escaped_lines(const std::string& text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) out += draw::escaped(line) + "\n";
  return out;
}

constexpr const char* kReportHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:80em;margin:2em auto;padding:0 1em}
h1{font-size:1.4em}h2{font:600 1em ui-monospace,monospace;margin-top:2em}
dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1em}dd{margin:0}li{font-family:ui-monospace,monospace}
pre{overflow-x:auto;font:13px/1.35 ui-monospace,monospace}svg{max-width:100%;height:auto}
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}}</style>
)";

// Increments the depth of nested `source` files while this object exists.
class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

}  // namespace

Console::Console(std::unique_ptr<Interpreter> inner, ConsoleOptions options)
    : inner_(std::move(inner)), options_(std::move(options)) {}

Outcome Console::run(const std::string& input) {
  Outcome outcome = answer(input);
  if (outcome.error) return outcome;
  remember(outcome);
  if (options_.for_programs) return outcome;
  const Command* command = find_command(outcome.command);
  const bool own = command != nullptr && (command->as<InConsole>() != nullptr ||
                                          command->as<WithoutSession>() != nullptr);
  // The text of commands of the console, and of commands without a session such as `help`, is
  // neither converted to the output mode nor written to the output file.
  if (own) return outcome;
  if (mode_ != OutputMode::kTable) outcome.result.text = in_mode(outcome.result.json, mode_);
  if (output_.empty()) {
    const bool fits_window = mode_ == OutputMode::kTable && options_.style.window;
    if (fits_window) {
      outcome.result.text =
          term::fold(outcome.result.text, options_.style, /*hang=*/2, /*breaks_words=*/true);
    }
    return outcome;
  }
  try {
    written_ += term::without_colours(outcome.result.text);
    write_file_atomically(output_, written_);
    outcome.result.text.clear();
  } catch (const Error& error) {
    output_.clear();
    return failed(input, outcome.command, error);
  }
  return outcome;
}

// Runs the command, and applies the filters that follow the command behind pipes.
Outcome Console::answer(const std::string& input) {
  Outcome outcome;
  try {
    const std::vector<std::string> stages = split_pipes(input);
    // The filters are parsed first, so that a syntax error is reported before anything runs.
    for (size_t i = 1; i < stages.size(); ++i) parse_filter(stages[i]);
    // `metrics | plot KEY` runs as `plot KEY`, which reads the metrics without making JSON rows.
    const bool draws = stages.size() == 2 && trim(stages.front()) == "metrics" &&
                       plots_metrics(stages.back()) && !options_.runs.empty();
    const size_t first = draws ? 1 : 0;
    stands_alone_ = stages.size() == 1 && depth_ == 0;
    if (options_.live_text) {
      options_.live_text->on = stands_alone_ && mode_ == OutputMode::kTable && output_.empty();
    }
    outcome = first_stage(stages[first]);
    outcome.input = input;
    if (outcome.error) return outcome;
    for (size_t i = first + 1; i < stages.size(); ++i) apply(outcome, stages[i]);
  } catch (const SessionLost&) {
    throw;  // the session has ended, so there is no answer
  } catch (const Error& error) {
    return failed(input, outcome.command, error);
  }
  return outcome;
}

Outcome Console::first_stage(const std::string& input) {
  const Command* command = command_of(input);
  const auto* own = command == nullptr ? nullptr : command->as<InConsole>();
  const auto* of_runs = command == nullptr ? nullptr : command->as<OfRuns>();
  const bool plots = !options_.runs.empty() && plots_metrics(input);
  if (own == nullptr && of_runs == nullptr && !plots) return inner_->run(input);
  Outcome outcome;
  outcome.input = input;
  outcome.command = std::string(command->name);
  const Arguments arguments = parse_command(input).arguments;
  if (own != nullptr) {
    outcome.result = own->function(*this, arguments);
    return outcome;
  }
  require_runs(options_.runs, outcome.command);
  outcome.result =
      (plots ? plot_metrics : of_runs->function)(options_.runs, arguments, options_.style);
  write_picture(arguments, outcome.result);
  return outcome;
}

Result Console::dashboard() {
  using Clock = std::chrono::steady_clock;
  // An update waits up to a second for silent ranks. With this interval, the dashboard shows a
  // silent rank within two seconds.
  constexpr auto kInterval = std::chrono::milliseconds(900);
  constexpr int kRows = 24;  // height of the dashboard in the command's answer
  DashboardData data;
  if (!options_.runs.empty()) data.read_losses(options_.runs.front().metrics_file());
  data.update(*inner_);
  Result result;
  const bool draws = stands_alone_ && !options_.for_programs && options_.open_screen;
  const auto screen = draws ? options_.open_screen() : nullptr;
  if (screen) {
    term::Style style = options_.style;
    auto begun = Clock::now();  // time at which the last update began
    const auto goes_on = [&](Clock::duration rest) {
      style.width = screen->columns();
      screen->draw(dashboard_text(data, screen->rows(), style));
      constexpr auto kLeast = std::chrono::milliseconds(100);
      return screen->wait(
          std::max(kLeast, std::chrono::duration_cast<std::chrono::milliseconds>(rest)));
    };
    // If the user interrupts an update while the job does not answer, the update may throw, which
    // ends the dashboard.
    while (goes_on(kInterval - (Clock::now() - begun))) {
      begun = Clock::now();
      data.update(*inner_);
    }
    result.printed = true;
  }
  result.json = data.to_json();
  result.text = dashboard_text(data, kRows, options_.style);
  return result;
}

void Console::remember(const Outcome& outcome) {
  if (outcome.command == "report" || outcome.command == "source") return;
  Result result = outcome.result;
  // Commands that change the session, for example `mode csv`, print nothing.
  if (result.text.empty() && result.svg.empty() && !options_.for_programs) return;
  if (result.text.empty() && options_.for_programs) {
    if (const Json* rows = rows_in(result.json)) {
      result.text = draw_rows(*rows, columns_of(*rows), term::Style::plain(), 6);
    } else {
      result.text = dump_json(result.json) + "\n";
    }
  }
  show({outcome.input, term::without_colours(result.text), result.svg});
}

void Console::show(Shown shown) {
  shown_bytes_ += shown.text.size() + shown.svg.size();
  shown_.push_back(std::move(shown));
  while (shown_bytes_ > kMostRemembered && shown_.size() > 1) {
    shown_bytes_ -= shown_.front().text.size() + shown_.front().svg.size();
    shown_.erase(shown_.begin());
  }
}

void Console::set_output(const std::filesystem::path& path, bool forced) {
  if (!path.empty()) {
    require_free_path(path, forced);
    write_file_atomically(path, "");  // fails immediately if the path cannot be written
  }
  output_ = path;
  written_.clear();
}

Result Console::source(const std::filesystem::path& path) {
  if (depth_ >= kDeepestSource) {
    throw Error(ErrorKind::kUsage, cat(path.string(), ": `source` is nested ", kDeepestSource,
                                       " levels deep: does a file run itself?"));
  }
  Result result;
  result.json["results"] = Json::array();
  const std::string text = read_file(path);
  CommandReader reader;
  int64_t number = 0;
  const Deeper deeper(depth_);
  const auto run_line = [&](const std::vector<std::string>& commands) {
    for (const std::string& command : commands) {
      const Outcome outcome = run(command);
      result.json["results"].push_back(inspect::to_json(outcome));
      result.text += outcome.result.text;
      result.quit = outcome.result.quit;
      if (outcome.error) {
        const std::string message = cat(path.string(), ":", number, ": ", outcome.error->message);
        if (!options_.keep_going) throw Error(outcome.error->kind, message, outcome.error->hint);
        result.text += cat("error: ", message, "\n");
      }
      result.failed = result.failed || !outcome.ok();
      if (result.quit || (result.failed && !options_.keep_going)) return false;
    }
    return true;
  };
  bool goes_on = true;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    goes_on = goes_on && run_line(reader.add(line + "\n"));
  }
  const bool open = reader.open_quote();
  if (goes_on) run_line(reader.finish());
  if (open && goes_on) {
    throw Error(ErrorKind::kUsage, cat(path.string(), ": the file ends inside a quote"));
  }
  return result;
}

// Adds the answers that describe the session's runs to the report: the comparison of the runs if
// there are several, the curves of the metrics that change in the first run, and the first run's
// plan.
void Console::show_runs() {
  if (options_.runs.empty()) return;
  const run_folder::RunFolder& run = options_.runs.front();
  std::vector<std::string> commands;
  if (const auto keys = changing_metrics(run); !keys.empty()) {
    commands.push_back(cat("plot ", join(keys, " ")));
  }
  if (options_.runs.size() > 1) commands.insert(commands.begin(), "compare");
  for (const std::string& command : commands) {
    const Outcome outcome = answer(command);
    if (!outcome.error) remember(outcome);
  }
  std::error_code missing;
  if (std::filesystem::exists(run.plan_file(), missing)) {
    show({run.plan_file().filename().string(), read_file(run.plan_file()), {}});
  }
}

Result Console::report(const std::filesystem::path& path, bool forced) {
  require_free_path(path, forced);
  if (shown_.empty()) show_runs();
  const std::string title =
      cat("am-repl: ", facts().title.empty() ? options_.target : facts().title);
  std::string page = cat(kReportHead, "<title>", draw::escaped(title),
                         "</title></head><body>\n<h1>", draw::escaped(title), "</h1>\n<dl>");
  std::vector<std::pair<std::string, std::string>> facts = {{"target", options_.target}};
  for (const auto& run : options_.runs) {
    const auto series = observe::read_series(run.metrics_file(), {"loss"});
    if (series.steps.empty()) continue;
    facts.emplace_back(
        "last step", cat(run.root().string(), ": step ", static_cast<int64_t>(series.steps.back()),
                         ", loss ", format_general(series.values.front().back(), 5)));
    if (const auto record = run_folder::read_record(run); record && record->time.total() > 0.0) {
      facts.emplace_back("goodput", run_folder::goodput_text(record->time));
    }
  }
  facts.emplace_back("written", cat(utc_date("%Y-%m-%d %H:%M UTC"), " by am-repl ", AM_VERSION));
  for (const auto& [name, value] : facts) {
    page += cat("<dt>", name, "</dt><dd>", draw::escaped(value), "</dd>");
  }
  page += "</dl>\n<nav><ol>\n";
  for (size_t i = 0; i < shown_.size(); ++i) {
    page += cat("<li><a href=\"#c", i, "\">", draw::escaped(shown_[i].input), "</a></li>\n");
  }
  page += "</ol></nav>\n";
  for (size_t i = 0; i < shown_.size(); ++i) {
    const Shown& shown = shown_[i];
    const std::string text = cat("<pre>", escaped_lines(shown.text), "</pre>\n");
    page += cat("<h2 id=\"c", i, "\">", draw::escaped(shown.input), "</h2>\n");
    // The text of an answer with a picture is in a folded element below the picture.
    page += shown.svg.empty()
                ? text
                : cat(shown.svg, "\n<details><summary>as text</summary>", text, "</details>\n");
  }
  write_file_atomically(path, page + "</body></html>\n");
  Result result;
  result.json = {{"path", path.string()}, {"commands", shown_.size()}};
  result.text = cat("wrote ", path.string(), " (", shown_.size(),
                    shown_.size() == 1 ? " command)\n" : " commands)\n");
  return result;
}

}  // namespace am::inspect
