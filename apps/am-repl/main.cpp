// am-repl TARGET: a prompt, or a script, on a checkpoint or on the ranks of a plan.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/inspect/completion.h"
#include "am/inspect/rank_worker.h"
#include "am/inspect/target.h"
#include "am/term/caret.h"
#include "line_editor.h"
#include "options.h"
#include "shell.h"

namespace am_repl {
namespace {

using namespace am;

std::atomic<bool> interrupted{
    false};  // set by the handler of SIGINT, which nothing can be passed to

void on_interrupt(int) { interrupted = true; }

void handle_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // no SA_RESTART: a line that is being read ends
  ::sigaction(SIGINT, &action, nullptr);
}

bool is_interactive(const Options& options) {
  return !options.commands && !options.script && !options.json && ::isatty(STDIN_FILENO) != 0 &&
         ::isatty(STDOUT_FILENO) != 0;
}

inspect::OpenOptions open_options(const Options& options) {
  inspect::OpenOptions open;
  open.session.style = term::Style::of(STDOUT_FILENO, options.color);
  open.session.for_programs = options.json;
  open.session.tokenizer = options.tokenizer;
  open.session.interrupted = [] { return interrupted.load(); };
  open.overrides = options.overrides;
  open.nproc = options.nproc;
  open.worker_argv = {"/proc/self/exe", "--worker"};
  return open;
}

// Reads it before the target is opened: a missing script costs no start of ranks.
Source script_of(const Options& options) {
  if (options.commands) return from_text(*options.commands);
  if (options.script) return from_text(read_file(*options.script));
  return from_file_descriptor(STDIN_FILENO);
}

int talk(inspect::Interpreter& interpreter) {
  std::cout << "am-repl " << AM_VERSION << ": " << interpreter.facts().title
            << ". `help` lists the commands, Ctrl-D ends.\n";
  const auto editor = make_line_editor(
      [&](std::string_view line) { return inspect::complete(line, interpreter.facts()); },
      history_file());
  return run_prompt(interpreter, *editor, [] { interrupted = false; });
}

int run(const Options& options, Json& report) {
  Json* results = options.json ? &report["results"] : nullptr;
  const bool interactive = is_interactive(options);
  std::optional<Source> script;
  if (interactive) {
    handle_interrupts();
  } else {
    script = script_of(options);
  }
  const inspect::Target target = inspect::find_target(options.target);
  if (!target.note.empty()) std::cerr << target.note << "\n";
  Diagnostics found;
  const auto interpreter = inspect::open_target(target, open_options(options), found);
  if (!found.empty()) {
    std::cerr << term::render(found, term::Style::of(STDERR_FILENO, options.color));
    if (options.json) report["diagnostics"] = to_json(found);
  }
  if (!interpreter) return 1;
  return interactive ? talk(*interpreter) : run_script(*interpreter, *script, results);
}

int fail(const Options& options, const Error& error, Json& report) {
  if (options.json) {
    report["error"] = {{"message", error.what()}, {"help", error.hint()}};
  } else {
    print_error(error.what(), error.hint(), term::Style::of(STDERR_FILENO, options.color));
  }
  return error.exit_status();
}

// `--worker SOCKET`: how am-repl starts the ranks of a plan.
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
  if (const auto socket = am_repl::worker_socket(argc, argv)) {
    return am::inspect::run_rank_worker(*socket);
  }
  int status = 0;
  const auto options = am_repl::parse_options(argc, argv, status);
  if (!options) return status;
  am::Json report = {{"results", am::Json::array()}};
  try {
    status = am_repl::run(*options, report);
  } catch (const am::Error& error) {
    status = am_repl::fail(*options, error, report);
  }
  if (options->json) std::cout << am::dump_json(report) << "\n";
  return status;
}
