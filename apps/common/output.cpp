#include "common/output.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "am/base/file.h"
#include "am/base/first_line.h"
#include "am/base/text.h"
#include "am/term/caret.h"
#include "am/term/printable.h"
#include "common/output_guard.h"

namespace am_apps {
namespace {

// Converts an exception to a diagnostic that cites no file. The rule of the diagnostic is the kind
// of the error, for example "io" or "format".
am::Diagnostics as_diagnostics(const am::Error& error) {
  am::Diagnostics found;
  found.error(am::to_string(error.kind()), {}, error.what(), error.hint());
  return found;
}

int report(const char* tool, const Output& output, const am::Error& error) {
  if (output.json) print(failure(as_diagnostics(error)));
  std::cerr << tool << ": " << output.err.paint(am::term::Role::kError, "error") << ": "
            << am::term::echo_lines(error.what()) << "\n";
  if (!error.hint().empty()) {
    std::cerr << output.err.paint(am::term::Role::kHelp, "help") << ": "
              << am::term::echo_lines(error.hint()) << "\n";
  }
  return error.exit_status();
}

}  // namespace

Output Output::of(bool json, am::term::ColorMode color) {
  const Output output{json, am::term::Style::of(STDOUT_FILENO, color),
                      am::term::Style::of(STDERR_FILENO, color)};
  allow_paint(output.out.color, output.err.color);
  return output;
}

// Flushes stdout, because diagnostics go to stderr: without the flush, a terminal could show a
// diagnostic before results that were printed earlier.
void print(const std::string& text) { std::cout << text << std::flush; }

void print_file(const std::string& text) {
  if (::isatty(STDOUT_FILENO) == 1) return print(text);
  std::cout.flush();
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) != 0 || !written) std::cout.setstate(std::ios::badbit);
}

void write_or_print(const std::string& text, const std::string& file, bool force) {
  if (file.empty()) return print_file(text);
  am::require_free_path(file, force);
  am::write_file_atomically(file, text);
}

void print(const am::Json& json) {
  std::cout << am::term::printable_json(am::dump_json_bytes(json, 1)) << "\n";
}

void print_diagnostics(const am::Diagnostics& found, const Output& output) {
  std::cerr << am::term::render(found, output.err);
}

am::Json failure(const am::Diagnostics& found) {
  am::Json json = am::Json::object();
  json["ok"] = false;
  json["diagnostics"] = am::to_json(found);
  return json;
}

int refuse(const am::Diagnostics& found, const Output& output) {
  if (output.json) {
    print(failure(found));
  } else {
    print_diagnostics(found, output);
  }
  return status_of(found);
}

int status_of(const am::Diagnostics& found) {
  for (const am::Diagnostic& item : found.items()) {
    if (item.rule == "plan.syntax" && item.span.file == "--set") return kUnusable;
    if (item.rule == "plan.file") return kUnusable;
  }
  return found.ok() ? kFine : kInvalid;
}

int guarded(const char* tool, const Output& output, const std::function<int()>& body) {
  int status = kFine;
  try {
    status = body();
  } catch (const am::Error& error) {
    status = report(tool, output, error);
  } catch (const std::exception& error) {
    status = report(tool, output, am::Error(am::ErrorKind::kInternal, am::first_line(error)));
  }
  std::cout.flush();
  if (!std::cout && status == kFine) {
    return report(tool, {false, output.out, output.err},
                  am::Error(am::ErrorKind::kIo, "cannot write to standard output"));
  }
  return status;
}

}  // namespace am_apps
