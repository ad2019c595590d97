// One rank's side of an inspection: what it holds, and the user's settings.
//
// Every rank of a session executes the same commands, so that collectives match; what rank 0
// answers is shown.
//
//   Session session(std::make_unique<StoredHoldings>(std::move(source)), {.style = style});
//   Outcome outcome = execute(session, "show model.norm.weight");   // command.h
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "am/inspect/holdings.h"
#include "am/inspect/progress.h"
#include "am/launch/doctor/memory_fit.h"
#include "am/term/style.h"

namespace am::inspect {

struct SessionOptions {
  term::Style style;
  bool for_programs = false;  // --json: `Result::json` is read, not its text
  bool force = false;         // what this machine's memory cannot hold is tried all the same
  std::string tokenizer;      // empty: the view's own
  std::function<launch::Space()> memory;  // of this machine; empty: as it is
  std::function<bool()>
      interrupted;               // did the user ask to stop the command that runs? May be empty
  Progress* progress = nullptr;  // told how far a command is; outlives the session
};

class Session {
 public:
  Session(std::unique_ptr<Holdings> view, SessionOptions options);

  Holdings& view() { return *view_; }
  const Holdings& view() const { return *view_; }
  const term::Style& style() const { return options_.style; }
  void set_width(int columns) { options_.style.width = columns; }

  bool for_programs() const { return options_.for_programs; }

  // By its name, a state's too, or by the end of it where only one parameter ends so. Throws
  // Error(kUsage) with the nearest names.
  const HeldParameter& parameter(std::string_view name) const;
  // By a name, a glob, or the module (or the glob of modules) that they are in; "" and "all" match
  // every parameter. States are found where no parameter is. Throws Error(kUsage) when nothing is.
  std::vector<const HeldParameter*> matching(std::string_view pattern) const;

  // Names that the user gave to what commands take.
  const std::map<std::string, std::vector<std::string>>& aliases() const { return aliases_; }
  void set_alias(const std::string& name, std::vector<std::string> words) {
    aliases_[name] = std::move(words);
  }

  // What cuts texts: "bytes", or a tokenizer.json; with an empty name, why none is known.
  DefaultTokenizer tokenizer() const;
  void set_tokenizer(const std::string& name) { options_.tokenizer = name; }

  // Significant digits of printed values.
  int digits() const { return digits_; }
  void set_digits(int digits) { digits_ = digits; }

  // Throws Error(kUsage) when the user interrupted any rank. Collective: call it in long loops.
  void check_interrupt();
  // check_interrupt, for work that is done elsewhere. This session must outlive it.
  Between between();
  // Whether this rank was told to stop: work that no peer waits for can be left undone until the
  // next check_interrupt().
  bool is_interrupted() const { return options_.interrupted && options_.interrupted(); }
  // Bytes that the command that runs is about to look at, and has looked at, of one process's
  // session. The second from any thread.
  void expect_bytes(int64_t bytes) const {
    if (options_.progress != nullptr) options_.progress->expect(bytes);
  }
  void saw_bytes(int64_t bytes) const {
    if (options_.progress != nullptr) options_.progress->add(bytes);
  }
  // Throws Error(kPlan) with both numbers when `what` takes more than this machine has available,
  // unless forced. Collective.
  void require_memory(int64_t bytes, const std::string& what, bool forced);

 private:
  std::unique_ptr<Holdings> view_;
  SessionOptions options_;
  int digits_ = 4;
  std::map<std::string, std::vector<std::string>> aliases_;
};

// The names of all modules that hold parameters: every prefix of a parameter's name that ends
// before a dot. Sorted naturally.
std::vector<std::string> module_names(const std::vector<HeldParameter>& parameters);

}  // namespace am::inspect
