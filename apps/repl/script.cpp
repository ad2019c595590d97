#include "repl/script.h"

#include <unistd.h>

#include <iostream>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/home.h"
#include "am/base/text.h"
#include "am/inspect/runs.h"
#include "am/term/printable.h"
#include "common/output.h"
#include "repl/progress_line.h"
#include "repl/terminal_screen.h"

namespace am_repl {

using namespace am;

std::optional<std::string> script_text(const Options& options) {
  if (options.commands) return options.commands;
  if (options.script) return read_file(expand_home(*options.script));
  return std::nullopt;
}

bool is_interactive(const Options& options) {
  return !options.commands && !options.script && !options.output.json &&
         ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
}

inspect::SessionOptions session_options(const Options& options) {
  inspect::SessionOptions session;
  session.style = options.output.out;
  session.for_programs = options.output.json;
  session.force = options.force;
  session.tokenizer = options.tokenizer;
  session.progress = options.progress.get();
  session.live_text = options.live_text;
  return session;
}

std::unique_ptr<inspect::Console> console_of(std::unique_ptr<inspect::Interpreter> opened,
                                             const Options& options) {
  if (options.progress) {
    opened = std::make_unique<WatchedInterpreter>(std::move(opened), *options.progress,
                                                  options.output.err);
  }
  auto console = std::make_unique<inspect::Console>(
      std::move(opened), inspect::ConsoleOptions{.style = options.output.out,
                                                 .for_programs = options.output.json,
                                                 .runs = runs_of(options),
                                                 .live_text = options.live_text,
                                                 .keep_going = options.keep_going,
                                                 .target = options.target,
                                                 .open_screen = TerminalScreen::open});
  const std::string& note = console->facts().note;
  if (!note.empty()) std::cerr << term::echo_lines(note) << "\n";
  return console;
}

inspect::Runs runs_of(const Options& options) {
  inspect::Runs runs;
  std::vector<std::string> targets = options.more_runs;
  targets.insert(targets.begin(), options.target);
  for (const std::string& target : targets) {
    const auto run = inspect::run_of(expand_home(target));
    if (run) runs.push_back(*run);
    if (run || targets.size() == 1) continue;
    throw Error(ErrorKind::kUsage, cat(target, ": not the folder of a run"),
                "each of several targets must be a run folder, with a metrics.jsonl");
  }
  return runs;
}

int run_to_end(inspect::Console& console, const Source& script, const Options& options,
               Json* report) {
  return run_script(console, script, options.output, report,
                    {options.script.value_or(""), options.keep_going});
}

int reported(const Options& options, const std::function<int(Json* report)>& run) {
  if (!options.output.json) return run(nullptr);
  Json report = {{"results", Json::array()}};
  try {
    const int status = run(&report);
    am_apps::print(report);
    return status;
  } catch (const Error& error) {
    report["error"] = {{"message", error.what()}, {"help", error.hint()}};
    am_apps::print(report);
    throw;
  }
}

}  // namespace am_repl
