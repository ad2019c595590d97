// Wraps an interpreter with what a user's console offers: pipes, output modes, files of commands,
// and files that receive the answers. It processes answers of commands and needs no ranks itself.
//
//   Console console(std::move(interpreter), {.style = style});   // from values::open_target()
//   console.run("stats | sort norm | head 3");
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/inspect/interpreter.h"

namespace am::inspect {

enum class OutputMode { kTable, kJson, kCsv, kMarkdown };
// Returns the mode with this name ("table", "json", "csv" or "md"), or nothing if there is none.
std::optional<OutputMode> parse_output_mode(std::string_view name);

struct ConsoleOptions {
  term::Style style;
  bool for_programs = false;  // only the JSON of answers is used, not their text
};

class Console : public Interpreter {
 public:
  Console(std::unique_ptr<Interpreter> inner, ConsoleOptions options);

  const SessionFacts& facts() const override { return inner_->facts(); }
  Outcome run(const std::string& input) override;
  void set_width(int columns) override {
    options_.style.width = columns;
    inner_->set_width(columns);
  }

  // The functions below implement the console's own commands.
  void set_mode(OutputMode mode) { mode_ = mode; }
  // From now on, writes answers to the file instead of returning their text; with an empty path,
  // returns the text again. The file contains complete answers at any time. Throws Error(kUsage) if
  // the file exists, unless `forced`.
  void set_output(const std::filesystem::path& path, bool forced);
  // Runs the commands of the file until one fails or quits. Returns their answers as one result.
  Result source(const std::filesystem::path& path);
  // Writes the session's commands and answers (the last 16 MiB of them) to an HTML page. Throws
  // Error(kUsage) if the path exists, unless `forced`.
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
  void remember(const Outcome& outcome);

  std::unique_ptr<Interpreter> inner_;
  ConsoleOptions options_;
  OutputMode mode_ = OutputMode::kTable;
  std::filesystem::path output_;  // file of set_output(); empty: none
  std::string written_;           // contents of the file of set_output() so far
  std::vector<Shown> shown_;
  size_t shown_bytes_ = 0;
  int depth_ = 0;  // how many files of `source` are being run, each from within the previous one
};

// Returns the first list of objects in an answer, or null if there is none. `key`, if given,
// receives the key of the list.
Json* rows_in(Json& answer, std::string* key = nullptr);

// Returns `text` as a field of a CSV file.
std::string csv_field(std::string_view text);
// Returns the answer as text in `mode`, which must not be kTable.
std::string in_mode(const Json& answer, OutputMode mode);

}  // namespace am::inspect
