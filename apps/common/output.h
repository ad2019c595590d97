// How a tool answers: results on stdout, everything else on stderr, and the exit status.
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
inline constexpr int kInvalid = 1;   // what was asked about is not valid, or the job failed
inline constexpr int kUnusable = 2;  // the command line or a file could not be read

struct Output {
  bool json = false;
  am::term::Style out;  // of stdout
  am::term::Style err;  // of stderr

  static Output of(bool json, am::term::ColorMode color);
};

// A result for people, or the one JSON object. Whatever a user's file brought into it, stdout gets
// no control character but our own colours (output_guard.h).
void print(const std::string& text);
// Bytes of a path that are not UTF-8 are written as \udcXX (dump_json_bytes).
void print(const am::Json& json);
// What is to become a file: as it stands, unless stdout is a terminal.
void print_file(const std::string& text);
// Diagnostics on stderr, as a compiler prints them.
void print_diagnostics(const am::Diagnostics& found, const Output& output);

// {"ok": false, "diagnostics": [...]}: what --json prints in the place of a result.
am::Json failure(const am::Diagnostics& found);

// The status of these: kUnusable when one is about the command line's own form (`--set` without a
// value) or a plan that cannot be read, kInvalid when there are errors, else kFine.
int status_of(const am::Diagnostics& found);

// Prints diagnostics where they belong (stderr; with --json in the object on stdout) and gives
// their status.
int refuse(const am::Diagnostics& found, const Output& output);

// Runs a tool's body. What it throws becomes a line on stderr (and {"ok": false} with --json) and a
// status.
int guarded(const char* tool, const Output& output, const std::function<int()>& body);

}  // namespace am_apps
