// One rank's side of an inspection: the tensors it holds, and the user's settings.
//
// Every rank of a session executes the same commands, so that collectives match; rank 0's answers
// are shown.
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
  bool for_programs = false;                   // --json: `Result::json` is read, not its text
  bool force = false;                          // try operations that exceed this machine's memory
  std::string tokenizer;                       // empty: the view's default
  std::function<launch::MemoryInfo()> memory;  // of this machine; empty: measured
  std::function<bool()> interrupted;  // whether the user wants to stop the command; may be empty
  Progress* progress = nullptr;       // receives a command's progress; must outlive the session
};

class Session {
 public:
  Session(std::unique_ptr<TensorCatalog> view, SessionOptions options);

  TensorCatalog& view() { return *view_; }
  const TensorCatalog& view() const { return *view_; }
  const term::Style& style() const { return options_.style; }
  void set_width(int columns) { options_.style.width = columns; }

  bool for_programs() const { return options_.for_programs; }

  // Finds a parameter or state by name, or by a unique suffix of a parameter's name. Throws
  // Error(kUsage) with the nearest names.
  const HeldParameter& parameter(std::string_view name) const;
  // Finds parameters by name, glob, or module (or glob of modules); "" and "all" match every
  // parameter. If no parameter matches, states are searched. Throws Error(kUsage) if nothing
  // matches.
  std::vector<const HeldParameter*> matching(std::string_view pattern) const;

  // The user's names for lists of operands.
  const std::map<std::string, std::vector<std::string>>& aliases() const { return aliases_; }
  void set_alias(const std::string& name, std::vector<std::string> words) {
    aliases_[name] = std::move(words);
  }

  // The tokenizer: "bytes", or a tokenizer.json; if the name is empty, `problem` says why none is
  // known.
  DefaultTokenizer tokenizer() const;
  void set_tokenizer(const std::string& name) { options_.tokenizer = name; }

  // Significant digits of printed values.
  int digits() const { return digits_; }
  void set_digits(int digits) { digits_ = digits; }

  // Throws Error(kUsage) if the user interrupted any rank. Collective: call it in long loops.
  void check_interrupt();
  // Returns a callback that calls check_interrupt(). This session must outlive it.
  Between between();
  // Whether this rank was interrupted. Work that needs no communication can then be skipped until
  // the next check_interrupt().
  bool is_interrupted() const { return options_.interrupted && options_.interrupted(); }
  // Report the bytes that the running command will read, and has read, in this process. saw_bytes()
  // may be called from any thread.
  void expect_bytes(int64_t bytes) const {
    if (options_.progress != nullptr) options_.progress->expect(bytes);
  }
  void saw_bytes(int64_t bytes) const {
    if (options_.progress != nullptr) options_.progress->add(bytes);
  }
  // Throws Error(kPlan) with both numbers if `what` needs more than the available memory of this
  // machine, unless forced. Collective.
  void require_memory(int64_t bytes, const std::string& what, bool forced);

 private:
  std::unique_ptr<TensorCatalog> view_;
  SessionOptions options_;
  int digits_ = 4;
  std::map<std::string, std::vector<std::string>> aliases_;
};

// Returns the names of all modules with parameters: every prefix of a parameter's name that ends
// before a dot. In natural order.
std::vector<std::string> module_names(const std::vector<HeldParameter>& parameters);

}  // namespace am::inspect
