// Prints a tool's results to stdout and everything else to stderr, and determines its exit status.
//
//   return am_apps::guarded("am-plan", output, [&] { return run_check(options, output); });
#pragma once

#include <functional>
#include <string>

#include "am/base/diagnostic.h"
#include "am/base/error.h"
#include "am/base/json.h"
#include "am/term/style.h"

namespace am_apps {

// Exit statuses of all tools.
inline constexpr int kFine = 0;
inline constexpr int kInvalid = 1;  // the input is invalid, or a check or the job failed
inline constexpr int kUnusable =
    2;  // the command line is wrong, or a file could not be read or written
inline constexpr int kFound = 3;  // a check of am-repl, for example `verify`, found a problem

struct Output {
  bool json = false;
  am::term::Style out;  // width and colours of stdout
  am::term::Style err;  // width and colours of stderr

  static Output of(bool json, am::term::ColorMode color);
};

// Prints a result as text. The filter of output_guard.h replaces control characters, which may come
// from a user's file.
void print(const std::string& text);
// Prints a result as JSON. If a path in it is not UTF-8, the invalid bytes are written as \udcXX
// (see dump_json_bytes).
void print(const am::Json& json);
// Prints text that the user may redirect into a file. Writes the text unchanged if stdout is not a
// terminal; otherwise prints it as print() does.
void print_file(const std::string& text);
// Writes the text to a file, or prints the text if `file` is empty. Throws Error(kUsage) if `file`
// is a folder, or if it is an existing regular file and `force` is false. Throws Error(kIo) if the
// file cannot be written.
void write_or_print(const std::string& text, const std::string& file, bool force);
// Prints diagnostics to stderr in the style of a compiler, each with the line of the plan that the
// diagnostic cites.
void print_diagnostics(const am::Diagnostics& found, const Output& output);

// Returns {"ok": false, "diagnostics": [...]}, which --json prints instead of a result.
am::Json failure(const am::Diagnostics& found);

// Returns the exit status for the diagnostics: kUnusable if a --set is malformed or a plan file
// cannot be read; otherwise kInvalid if there are errors, or kFine.
int status_of(const am::Diagnostics& found);

// Prints the diagnostics that prevent a result, and returns their exit status. Prints to stderr;
// with --json, prints an object to stdout instead.
int refuse(const am::Diagnostics& found, const Output& output);

// Runs `body`, the main part of a tool, and returns the tool's exit status. This is the result of
// `body` or, after an exception, the status for the kind of the exception. Prints an exception on
// stderr, and with --json also prints an object with "ok": false on stdout. If `body` succeeds but
// stdout cannot be written, reports an error of kind kIo.
int guarded(const char* tool, const Output& output, const std::function<int()>& body);

}  // namespace am_apps
