// State of an am-repl session on one rank: the tensors that commands can access, and the settings
// of the user.
//
// Every rank of a session executes the same commands, so that collectives match. Only the answers
// of rank 0 are shown.
//
//   Session session(std::make_unique<StoredCatalog>(std::move(source)), {.style = style});
//   Outcome outcome = execute(session, "show model.norm.weight");   // command.h
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "am/inspect/progress.h"
#include "am/inspect/tensor_catalog.h"
#include "am/launch/doctor/memory_fit.h"
#include "am/term/style.h"

namespace am::inspect {

struct SessionOptions {
  term::Style style;
  bool for_programs = false;  // set for --json: Result::text is not printed
  bool force = false;         // set for --force: skip the check of this machine's memory
  std::string tokenizer;  // value of --tokenizer; empty: TensorCatalog::default_tokenizer() is used
  std::filesystem::path folder;  // folder of relative paths; empty: the current folder
  std::function<launch::MemoryInfo()> memory;  // for tests: replaces memory_of_machine()
  std::function<bool()> interrupted;  // whether the user wants to stop the command; may be empty
  Progress* progress = nullptr;       // counts bytes that a command reads; must outlive the session
  std::shared_ptr<LiveText> live_text;  // null: the text appears when the command ends
};

struct Arguments;
struct Result;
class Session;

// Type of the function of a command. All ranks of the session call it.
using RankFunction = Result(Session& session, const Arguments& arguments);
// Type of a function that maps the name of a command to the function that runs the command; returns
// null for a command that reads no values of tensors.
using ValueFunctions = RankFunction* (*)(std::string_view command);

class Session {
 public:
  // `functions` returns the functions of commands that read values; null if the session has no such
  // commands.
  Session(std::unique_ptr<TensorCatalog> view, SessionOptions options,
          ValueFunctions functions = nullptr);

  TensorCatalog& view() { return *view_; }
  const TensorCatalog& view() const { return *view_; }
  const term::Style& style() const { return options_.style; }
  void set_window(int columns, int rows) {
    options_.style.width = columns;
    options_.style.height = rows;
  }

  // Returns the function of a command that reads values. Throws Error(kInternal) if the session was
  // created without a function for this command.
  RankFunction& value_function(std::string_view command) const;

  bool for_programs() const { return options_.for_programs; }
  // Returns the path that an operand names. Expands ~. A relative path begins at
  // SessionOptions::folder.
  std::filesystem::path path(const std::string& operand) const;

  // Returns the parameter or optimizer state with this name. If there is none, returns the only
  // parameter whose name ends in "." + name. Throws Error(kUsage) if no parameter or several
  // parameters end in `name`, for example with the nearest name as the hint.
  const HeldParameter& parameter(std::string_view name) const;
  // Returns the parameters that the pattern matches as a name, a glob, a module or a glob of
  // modules; "" and "all" match every parameter. If no parameter matches, searches the optimizer
  // states in the same way. If no state matches either and the pattern is not a glob, uses the only
  // parameter or module whose name ends in "." + pattern. Throws Error(kUsage) if nothing matches.
  std::vector<const HeldParameter*> matching(std::string_view pattern) const;

  // Returns the names that the user has defined with `let`, and the operands that each name stands
  // for.
  const std::map<std::string, std::vector<std::string>>& aliases() const { return aliases_; }
  void set_alias(const std::string& name, std::vector<std::string> words) {
    aliases_[name] = std::move(words);
  }

  // Returns the tokenizer that the user chose, otherwise the default of the opened model.
  DefaultTokenizer tokenizer() const;
  void set_tokenizer(const std::string& name) { options_.tokenizer = name; }

  // Number of significant digits with which values are printed.
  int digits() const { return digits_; }
  void set_digits(int digits) { digits_ = digits; }

  // Returns whether the user interrupted any rank. Collective.
  bool any_interrupted();
  // Throws Error(kUsage) on all ranks if the user interrupted any of them. Collective: a long loop
  // must call check_interrupt() on every rank at the same points.
  void check_interrupt();
  // Returns a callback that calls check_interrupt() of this session, which must outlive the
  // callback.
  Between between();
  // Returns whether the user interrupted this rank. If so, the rank can skip local work until its
  // next check_interrupt(), which throws.
  bool is_interrupted() const { return options_.interrupted && options_.interrupted(); }
  // Returns the function that prints text while the command runs; null if no text may be printed.
  const std::function<void(const std::string&)>* live_text() const {
    return options_.live_text && options_.live_text->on ? &options_.live_text->print : nullptr;
  }
  // Report the progress of the running command in this process: expect_bytes() sets the number of
  // bytes that the command will read, and saw_bytes() adds bytes that it has read. saw_bytes() may
  // be called from any thread.
  void expect_bytes(int64_t bytes) const {
    if (options_.progress != nullptr) options_.progress->expect(bytes);
  }
  void saw_bytes(int64_t bytes) const {
    if (options_.progress != nullptr) options_.progress->add(bytes);
  }
  // Throws Error(kPlan) if an operation needs `bytes` of memory and the machine of any rank has
  // less memory available. Does nothing if `forced`, or if the session has --force. `what` names
  // the operation in the message. Collective.
  void require_memory(int64_t bytes, const std::string& what, bool forced);

 private:
  std::unique_ptr<TensorCatalog> view_;
  SessionOptions options_;
  ValueFunctions functions_;
  int digits_ = 4;
  std::map<std::string, std::vector<std::string>> aliases_;
};

// Returns the names of all modules that contain parameters, in natural order. A module's name is
// the part of a parameter's name before one of the dots.
std::vector<std::string> module_names(const std::vector<HeldParameter>& parameters);

}  // namespace am::inspect
