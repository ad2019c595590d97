// The console between a user and an interpreter: pipes, output modes, files of commands and of
// answers. It needs no ranks: it processes the answers of commands.
//
//   Console console(std::move(interpreter), {.style = style});   // of values::open_target()
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
// "table", "json", "csv", "md"
std::optional<OutputMode> parse_output_mode(std::string_view name);

struct ConsoleOptions {
  term::Style style;
  bool for_programs = false;  // texts are not needed
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

  // Implementations of the console's own commands.
  void set_mode(OutputMode mode) { mode_ = mode; }
  // Redirects all further answers to the file, which holds complete answers at any time; an empty
  // path ends the redirection. Throws Error(kUsage) if the path exists, unless `forced`.
  void set_output(const std::filesystem::path& path, bool forced);
  // Runs a file's commands until one fails.
  Result source(const std::filesystem::path& path);
  // Writes every answer of the session to an HTML page. Throws Error(kUsage) if the path exists,
  // unless `forced`.
  Result report(const std::filesystem::path& path, bool forced);

 private:
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
  std::filesystem::path output_;
  std::string written_;  // contents of `output_`
  std::vector<Shown> shown_;
  size_t shown_bytes_ = 0;
  int depth_ = 0;  // nesting depth of `source` files
};

// Returns the list of rows in an answer, and its key; null if there is none.
Json* rows_in(Json& answer, std::string* key = nullptr);

// Returns `text` as a field of a CSV file.
std::string csv_field(std::string_view text);
// Formats an answer in a mode other than kTable.
std::string in_mode(const Json& answer, OutputMode mode);

}  // namespace am::inspect
