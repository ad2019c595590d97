#include "repl/shell.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
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
    out += text;
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

int run_script(Interpreter& interpreter, const Source& source, const am_apps::Output& output,
               am::Json* results, const std::string& name) {
  am::inspect::CommandReader reader;
  int64_t number = 0;
  const auto run_all = [&](const std::vector<std::string>& commands) -> std::optional<int> {
    for (const std::string& command : commands) {
      const Outcome outcome = interpreter.run(command);
      const std::string place =
          name.empty() ? std::string() : am::cat(name, ":", number, ": `", command, "`: ");
      if (!show(outcome, output, results, place)) return outcome.ok() ? 0 : 1;
    }
    return std::nullopt;
  };
  bool more = true;
  while (more) {
    std::string piece;
    more = source(piece);
    // Runs the commands line by line, so that an error can cite its line number.
    for (size_t first = 0; first < piece.size();) {
      const size_t end = std::min(piece.find('\n', first), piece.size() - 1) + 1;
      ++number;
      if (const auto status = run_all(reader.add(piece.substr(first, end - first)))) return *status;
      first = end;
    }
  }
  if (const auto status = run_all(reader.finish())) return *status;
  if (!reader.open_quote()) return 0;
  show(open_quote(reader.rest()), output, results);
  return 1;
}

}  // namespace am_repl
