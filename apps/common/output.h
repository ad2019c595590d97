// Output of a tool: results on stdout, everything else on stderr, and the exit status.
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
inline constexpr int kInvalid = 1;   // the input is invalid, or a check or the job failed
inline constexpr int kUnusable = 2;  // the command line or a file could not be read

struct Output {
  bool json = false;
  am::term::Style out;  // for stdout
  am::term::Style err;  // for stderr

  static Output of(bool json, am::term::ColorMode color);
};

// Prints a result as text. stdout passes no control characters except the tools' own colours
// (output_guard.h), whatever a user's file contains.
void print(const std::string& text);
// Prints a result as JSON. Bytes of a path that are not UTF-8 are written as \udcXX
// (dump_json_bytes).
void print(const am::Json& json);
// Prints text meant to be redirected to a file: unchanged, unless stdout is a terminal.
void print_file(const std::string& text);
// Prints diagnostics to stderr in the form of a compiler.
void print_diagnostics(const am::Diagnostics& found, const Output& output);

// Returns {"ok": false, "diagnostics": [...]}, which --json prints instead of a result.
am::Json failure(const am::Diagnostics& found);

// Returns the exit status for the diagnostics: kUnusable if one concerns the form of the command
// line (`--set` without a value) or a plan that cannot be read, kInvalid if there are errors,
// otherwise kFine.
int status_of(const am::Diagnostics& found);

// Prints diagnostics to stderr, with --json also in an object on stdout, and returns their exit
// status.
int refuse(const am::Diagnostics& found, const Output& output);

// Runs a tool's body and returns its exit status. An exception is printed on stderr (with --json
// also {"ok": false} on stdout) and mapped to a status.
int guarded(const char* tool, const Output& output, const std::function<int()>& body);

}  // namespace am_apps
