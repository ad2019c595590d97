#include "repl/shell.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/inspect/words.h"
#include "am/term/printable.h"

namespace am_repl {

using am::inspect::Interpreter;
using am::inspect::Outcome;

namespace {

// Prints the error and its hint. The message begins with `place`, which names the file, the line
// and the failed command, for example "checks.am:3: `show x`: ". `place` may be empty.
void print_error(const am::inspect::CommandError& error, const std::string& place,
                 const am::term::Style& style) {
  std::cerr << style.paint(am::term::Role::kError, "error") << ": "
            << am::term::echo_lines(am::cat(place, error.message)) << "\n";
  if (error.hint.empty()) return;
  std::cerr << style.paint(am::term::Role::kHelp, "help") << ": "
            << am::term::echo_lines(error.hint) << "\n";
}

Outcome open_quote(const std::string& rest) {
  Outcome outcome;
  outcome.input = rest;
  outcome.error = {am::ErrorKind::kUsage, "the input ends inside a quote", {}};
  return outcome;
}

}  // namespace

bool show(const Outcome& outcome, const am_apps::Output& output, am::Json* results,
          const std::string& place, const Print& print) {
  if (results != nullptr) {
    results->push_back(am::inspect::to_json(outcome));
  } else if (outcome.result.printed) {
    // The text was already printed while the command ran.
  } else if (!outcome.error) {
    print ? print(outcome.result.text) : am_apps::print(outcome.result.text);
  } else {
    print_error(*outcome.error, place, output.err);
  }
  return outcome.ok() && !outcome.result.quit;
}

Source from_text(std::string text) {
  return [text = std::move(text), done = false](std::string& out) mutable {
    if (std::exchange(done, true)) return false;
    out += text + "\n";  // the newline ends the last command
    return true;
  };
}

Source from_file_descriptor(int fd) {
  return [fd](std::string& out) {
    std::array<char, 4096> bytes;
    ssize_t count = 0;
    do {
      count = ::read(fd, bytes.data(), bytes.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
      throw am::Error(am::ErrorKind::kIo, am::cat("cannot read commands: ", std::strerror(errno)));
    }
    out.append(bytes.data(), static_cast<size_t>(count));
    return count > 0;
  };
}

namespace {

struct ScriptCommand {
  int64_t line;
  std::string text;
};

// Reports the commands of a script that are not run (`rest`), because the command of `last` ended
// the script.
void report_end(const Outcome& last, const std::deque<ScriptCommand>& rest,
                const am_apps::Output& output, am::Json* report) {
  if (rest.empty()) return;
  if (report != nullptr) {
    for (const ScriptCommand& each : rest) (*report)["not_run"].push_back(each.text);
    return;
  }
  constexpr size_t kMost = 5;
  std::vector<std::string> names;
  for (size_t i = 0; i < rest.size() && i < kMost; ++i) names.push_back("`" + rest[i].text + "`");
  if (rest.size() > kMost) names.push_back(am::cat(rest.size() - kMost, " more"));
  const std::string found = last.error ? "" : am::cat("`", last.input, "` found a problem; ");
  std::cerr << am::term::echo_lines(am::cat(found, "not run: ", am::join(names, ", "))) << "\n"
            << output.err.paint(am::term::Role::kHelp, "help") << ": --keep-going runs them too\n";
}

}  // namespace

int run_script(Interpreter& interpreter, const Source& source, const am_apps::Output& output,
               am::Json* report, const ScriptOptions& options) {
  am::Json* results = report == nullptr ? nullptr : &(*report)["results"];
  am::inspect::CommandReader reader;
  std::deque<ScriptCommand> waiting;
  int64_t line = 0;
  int status = am_apps::kFine;
  bool over = false;
  const auto add = [&](std::vector<std::string> commands) {
    for (std::string& command : commands) waiting.push_back({line, std::move(command)});
  };
  const auto run_waiting = [&] {
    while (!over && !waiting.empty()) {
      const ScriptCommand command = std::move(waiting.front());
      waiting.pop_front();
      const Outcome outcome = interpreter.run(command.text);
      const std::string place = options.name.empty() ? std::string()
                                                     : am::cat(options.name, ":", command.line,
                                                               ": `", command.text, "`: ");
      show(outcome, output, results, place);
      if (outcome.error) status = am_apps::kInvalid;
      if (outcome.result.failed && status == am_apps::kFine) status = am_apps::kFound;
      over = outcome.result.quit || (!outcome.ok() && !options.keep_going);
      if (over && !outcome.ok()) report_end(outcome, waiting, output, report);
    }
  };
  for (bool more = true; more && !over;) {
    std::string piece;
    more = source(piece);
    for (size_t first = 0; first < piece.size();) {
      const size_t end = std::min(piece.find('\n', first), piece.size() - 1) + 1;
      ++line;
      add(reader.add(piece.substr(first, end - first)));
      first = end;
    }
    run_waiting();
  }
  if (over) return status;
  add(reader.finish());
  run_waiting();
  if (over || !reader.open_quote()) return status;
  show(open_quote(reader.rest()), output, results);
  return am_apps::kInvalid;
}

}  // namespace am_repl
