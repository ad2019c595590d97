// Errors in a user's files as data: the violated rule, the location, a message, and advice.
//
//   Diagnostics found;
//   auto plan = config::load_plan("llama.toml", {}, found);
//   rules::check(*plan, /*world_size=*/0, found);    // adds every violated rule
//   if (!found.ok()) std::cerr << term::render(found, style);
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace am {

enum class Severity { kError, kWarning, kNote };

const char* to_string(Severity severity);

// A location in a user's file. Lines and columns count from 1. A column is one character. Line 0
// means the file as a whole. `file` is "--set" for a value from the command-line option --set, and
// empty if there is no file. `source` is the text of the line, or empty. If it is not empty,
// term::render() prints the line, and below it one caret for each of the `length` characters from
// `column` on.
struct Span {
  std::string file;
  int line = 0;
  int column = 0;
  int length = 1;
  std::string source;
};

struct Diagnostic {
  std::string rule;  // id of the violated rule; `am-plan explain RULE` describes it
  Severity severity = Severity::kError;
  Span span;
  std::string message;
  std::string help;  // advice, for example the nearest legal values; may be empty
};

class Diagnostics {
 public:
  void add(Diagnostic diagnostic) { items_.push_back(std::move(diagnostic)); }
  void error(std::string rule, Span span, std::string message, std::string help = {});
  void warning(std::string rule, Span span, std::string message, std::string help = {});
  void append(const Diagnostics& other);

  // Returns whether there are no errors; warnings and notes do not count.
  bool ok() const { return errors() == 0; }
  int errors() const { return count(Severity::kError); }
  int count(Severity severity) const;
  bool empty() const { return items_.empty(); }
  const std::vector<Diagnostic>& items() const { return items_; }
  // Sorts the diagnostics by file, line and column. Diagnostics with equal locations keep their
  // order.
  void sort();

 private:
  std::vector<Diagnostic> items_;
};

}  // namespace am
