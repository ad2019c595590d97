// Adds the features of a console to an interpreter: pipes, output modes, files of commands, and
// files that receive the answers. The console processes the answers of commands and does not access
// ranks.
//
//   Console console(std::move(interpreter), {.style = style});   // from values::open_target()
//   console.run("stats | sort norm | head 3");
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/inspect/dashboard.h"
#include "am/inspect/interpreter.h"

namespace am::inspect {

enum class OutputMode { kTable, kJson, kCsv, kMarkdown };
// Returns the mode with this name: "table", "json", "csv" or "md". Returns nullopt for any other
// name.
std::optional<OutputMode> parse_output_mode(std::string_view name);

struct ConsoleOptions {
  term::Style style;
  bool for_programs = false;                      // the caller uses only the JSON of answers
  Runs runs = {};                                 // the run folders that the session was opened for
  std::shared_ptr<LiveText> live_text = nullptr;  // SessionOptions::live_text of the session
  bool keep_going = false;                        // source() continues after a command that fails
  std::string target = {};  // path or address that the session was opened for, for report()
  // Opens the user's terminal for dashboard(). Returns null without a terminal. The function may be
  // empty.
  std::function<std::unique_ptr<Screen>()> open_screen = {};
};

class Console : public Interpreter {
 public:
  Console(std::unique_ptr<Interpreter> inner, ConsoleOptions options);

  const SessionFacts& facts() const override { return inner_->facts(); }
  Outcome run(const std::string& input) override;
  void set_window(int columns, int rows) override {
    options_.style.width = columns;
    options_.style.height = rows;
    inner_->set_window(columns, rows);
  }

  // The functions below implement the console's own commands.
  void set_mode(OutputMode mode) { mode_ = mode; }
  // Redirects the text of answers to the file; an empty path ends the redirection. The file
  // contains only complete answers at any time. Throws Error(kUsage) if the file exists and
  // `forced` is false.
  void set_output(const std::filesystem::path& path, bool forced);
  // Runs the commands in the file until `quit`, and returns all answers as one result. Without
  // ConsoleOptions::keep_going, the first command that fails ends the run: source() throws the
  // command's error, or sets Result::failed if a check found a problem.
  Result source(const std::filesystem::path& path);
  // Shows the dashboard of a job on the user's terminal until the user leaves it, and returns the
  // last state of the dashboard. Without a terminal, in a pipe or in a file that `source` runs,
  // returns the current state at once.
  Result dashboard();
  // Writes the commands and answers of the session (the last 16 MiB) to an HTML page. Throws
  // Error(kUsage) if the path exists and `forced` is false. If the session has run folders but no
  // answers yet, the page contains the plan of the first run and the curves of its metrics that
  // change. If there are several run folders, the page also contains their comparison.
  Result report(const std::filesystem::path& path, bool forced);

 private:
  // A command that was run, with its answer, for report().
  struct Shown {
    std::string input;
    std::string text;
    std::string svg;
  };

  Outcome answer(const std::string& input);
  Outcome first_stage(const std::string& input);
  // Applies the filter, or draws the picture, that follows a pipe.
  void apply(Outcome& outcome, const std::string& stage) const;
  void remember(const Outcome& outcome);
  // Adds an entry to shown_, and drops the oldest entries if their total size exceeds the limit.
  void show(Shown shown);
  void show_runs();

  std::unique_ptr<Interpreter> inner_;
  ConsoleOptions options_;
  OutputMode mode_ = OutputMode::kTable;
  std::filesystem::path output_;  // path that set_output() received; empty: none
  std::string written_;           // contents of that file so far
  std::vector<Shown> shown_;
  size_t shown_bytes_ = 0;
  int depth_ = 0;             // number of nested `source` commands that are running
  bool stands_alone_ = true;  // the current command is outside of pipes and of `source`
};

// Returns the first list of objects in an answer; null if there is none. An empty list counts as a
// list of objects. If `key` is not null, stores the key of the list in `*key`.
Json* rows_in(Json& answer, std::string* key = nullptr);

// Returns `text` as a field of a CSV file: in double quotes if it contains a comma, a double quote
// or a line break.
std::string csv_field(std::string_view text);
// Returns the answer as text in `mode`, which must not be kTable.
std::string in_mode(const Json& answer, OutputMode mode);

}  // namespace am::inspect
