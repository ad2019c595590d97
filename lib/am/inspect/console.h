// What stands between a person and an interpreter: pipes, output modes, files of commands and of
// answers. It needs no ranks: it works on what commands answered.
//
//   Console console(open_target(target, options, found), {.style = style});
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
  bool for_programs = false;  // texts are not read
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

  // What its own commands do.
  void set_mode(OutputMode mode) { mode_ = mode; }
  // Answers go to the file from now on, to which whole answers are added; an empty path ends it.
  // Throws Error(kUsage) for a path that is taken, unless `forced`.
  void set_output(const std::filesystem::path& path, bool forced);
  // Runs a file's commands, up to the first that fails.
  Result source(const std::filesystem::path& path);
  // Every answer since the session began as an HTML page. Throws Error(kUsage) for a path that is
  // taken, unless `forced`.
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
  std::string written_;  // to `output_`
  std::vector<Shown> shown_;
  size_t shown_bytes_ = 0;
  int depth_ = 0;  // of files that read files
};

// The list of rows in an answer and its key; null where there is none.
Json* rows_in(Json& answer, std::string* key = nullptr);

// `text` as a field of a CSV file.
std::string csv_field(std::string_view text);
// An answer in a mode other than kTable.
std::string in_mode(const Json& answer, OutputMode mode);

}  // namespace am::inspect
