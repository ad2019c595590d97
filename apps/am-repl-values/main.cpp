// am-repl-values: the part of am-repl that needs libtorch. It opens a prompt or runs a script for
// the values of a checkpoint, of the ranks of a plan, or of a running job. am-repl replaces its own
// process by this program when values are needed, so both programs accept the same command line.
#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "am/base/error.h"
#include "am/base/home.h"
#include "am/base/json.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/inspect/completion.h"
#include "am/inspect/console.h"
#include "am/inspect/interpreter.h"
#include "am/inspect/target.h"
#include "am/inspect/words.h"
#include "am/launch/supervise/signal_thread.h"
#include "am/runtime/engine_plugin.h"
#include "am/runtime/torch_version.h"
#include "am/term/printable.h"
#include "am/term/style.h"
#include "am/values/open_target.h"
#include "am/values/rank_worker.h"
#include "common/output.h"
#include "interrupts.h"
#include "line_editor.h"
#include "pager.h"
#include "repl/options.h"
#include "repl/script.h"
#include "repl/shell.h"
#include "repl/terminal_screen.h"

namespace am_repl {
namespace {

using namespace am;

values::OpenOptions open_options(const Options& options, Interrupts& interrupts) {
  values::OpenOptions open;
  open.session = session_options(options);
  open.session.interrupted = [&interrupts] {
    return interrupts.came() || TerminalScreen::leaves();
  };
  open.overrides = options.overrides;
  open.nproc = options.nproc;
  open.write = options.write;
  open.plugins = options.plugins;
  open.worker_argv = {"/proc/self/exe", "--worker"};
  open.wait.interrupted = open.session.interrupted;
  open.wait.forget_interrupt = [&interrupts] { interrupts.clear(); };
  open.wait.notice = [](const std::string& line) { std::cerr << line << std::endl; };
  return open;
}

// Returns whether the command continues on the next line: the text has an open quote, or ends with
// a backslash.
bool goes_on(const std::string& text) {
  const inspect::SplitCommands split = inspect::split_commands(text, false);
  return split.open_quote || (!text.empty() && text.back() == '\\');
}

// Reads and runs commands until Ctrl-D or `quit`.
void run_prompt(inspect::Interpreter& interpreter, LineEditor& editor,
                const am_apps::Output& output, Interrupts& interrupts) {
  std::string text;
  while (true) {
    const Line line =
        editor.read(text.empty() ? term::echo(interpreter.facts().title) + "> " : "...> ");
    if (line.kind == Line::Kind::kEnd) return;
    if (line.kind == Line::Kind::kInterrupted) {
      interrupts.clear();
      text.clear();
      continue;
    }
    text += line.text;
    if (goes_on(text)) {
      text += '\n';
      continue;
    }
    editor.remember(text);
    for (const std::string& command :
         inspect::split_commands(std::exchange(text, {}), true).commands) {
      interpreter.set_window(term::terminal_width(STDOUT_FILENO, output.out.width),
                             term::terminal_height(STDOUT_FILENO, output.out.height));
      const inspect::Outcome outcome = interpreter.run(command);
      const bool next = show(outcome, output, nullptr, {}, show_paged);
      if (outcome.result.quit) return;
      if (!next) break;
    }
    // A Ctrl-C that arrived after the end of this command must not cancel the next one.
    interrupts.clear();
  }
}

// Runs the prompt. Until this function calls handle(), for example while the target is opened,
// Ctrl-C ends am-repl, and the kernel then kills the ranks that am-repl has started
// (PR_SET_PDEATHSIG).
void talk(const Options& options, inspect::Interpreter& interpreter, Interrupts& interrupts) {
  interrupts.handle();
  am_apps::print(cat("am-repl ", AM_VERSION, ": ", interpreter.facts().title,
                     ". `help` lists the commands, Ctrl-D ends.\n"));
  const auto editor = make_line_editor(
      {.completer =
           [&](std::string_view line) { return inspect::complete(line, interpreter.facts()); },
       .style = options.output.out,
       .interrupts = &interrupts,
       .history = history_file()});
  run_prompt(interpreter, *editor, options.output, interrupts);
}

int run(const Options& options, Json* report) {
  const bool interactive = is_interactive(options);
  // The script is read before the target is opened, so that a missing script is reported before any
  // rank is started.
  const auto text = script_text(options);
  const Source script = text ? from_text(*text) : from_file_descriptor(STDIN_FILENO);
  const inspect::Target target =
      inspect::find_target(expand_home(options.target), expand_home(options.token));
  if (!target.note.empty()) std::cerr << term::echo(target.note) << "\n";
  Diagnostics found;
  Interrupts interrupts;
  auto opened = values::open_target(target, open_options(options, interrupts), found);
  am_apps::print_diagnostics(found, options.output);
  if (report != nullptr && !found.empty()) (*report)["diagnostics"] = to_json(found);
  if (!opened) return am_apps::status_of(found);
  const auto console = console_of(std::move(opened), options);
  if (!interactive) return run_to_end(*console, script, options, report);
  talk(options, *console, interrupts);
  return am_apps::kFine;
}

int run_and_report(const Options& options) {
  runtime::require_compiled_torch();
  try {
    return reported(options, [&](Json* report) { return run(options, report); });
  } catch (const inspect::SessionLost& lost) {
    std::cerr << "am-repl: " << term::printable_lines(lost.report());
    return am_apps::kInvalid;
  }
}

// Returns the versions of libtorch and NCCL, for --version.
std::string library_versions() {
  return cat(runtime::torch_version_text(), runtime::nccl_version_text());
}

// Returns the socket's file descriptor from the command line `--worker SOCKET`, with which this
// program starts itself for each rank of a plan; nothing for any other command line.
std::optional<int> worker_socket(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--worker") != 0) return std::nullopt;
  int socket = -1;
  const char* end = argv[2] + std::strlen(argv[2]);
  const auto [stop, problem] = std::from_chars(argv[2], end, socket);
  if (problem != std::errc() || stop != end || ::fcntl(socket, F_GETFD) < 0) return std::nullopt;
  return socket;
}

}  // namespace
}  // namespace am_repl

int main(int argc, char** argv) {
  const am::launch::SignalThread signals;  // created before libtorch creates threads
  std::signal(SIGXFSZ, SIG_IGN);           // a write beyond RLIMIT_FSIZE then fails with an error
  am::guard_mapped_files();
  if (const auto socket = am_repl::worker_socket(argc, argv)) {
    return am::values::run_rank_worker(*socket);
  }
  am_repl::Options options;
  if (const auto status = am_repl::parse_options(argc, argv, &am_repl::library_versions, options))
    return *status;
  am_apps::Output for_people = options.output;
  for_people.json = false;  // errors are in the JSON report already: guarded() prints only text
  return am_apps::guarded("am-repl", for_people, [&] { return am_repl::run_and_report(options); });
}
