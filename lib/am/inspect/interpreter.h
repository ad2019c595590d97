// Interface to execute commands: in this process, in the ranks of a plan, or in a running job.
//
//   Outcome outcome = interpreter.run("ls *.weight");   // values::open_target() returns one
#pragma once

#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/inspect/command.h"

namespace am::inspect {

// Facts of a session for the prompt and for completion.
struct SessionFacts {
  std::string title;                    // "llama step-300 [dp_shard 2]"
  std::vector<std::string> parameters;  // names
  std::vector<std::string> modules;
  std::string note;  // shown at the start; may be empty
};

SessionFacts facts_of(const Session& session);

// Thrown when a session is over because a rank died. `report`: full description, in lines that end
// with a newline.
class SessionLost : public Error {
 public:
  explicit SessionLost(const std::string& report);

  const std::string& report() const { return report_; }

 private:
  std::string report_;
};

class Interpreter {
 public:
  virtual ~Interpreter() = default;

  virtual const SessionFacts& facts() const = 0;
  // Runs a command; errors are part of the outcome. Throws SessionLost if the session has ended.
  virtual Outcome run(const std::string& input) = 0;
  // Sets the terminal's width in columns for further output.
  virtual void set_width(int /*columns*/) {}
};

// Executes commands in this process.
class LocalInterpreter : public Interpreter {
 public:
  explicit LocalInterpreter(Session session);

  const SessionFacts& facts() const override { return facts_; }
  Outcome run(const std::string& input) override;
  void set_width(int columns) override { session_.set_width(columns); }

 private:
  Session session_;
  SessionFacts facts_;
};

}  // namespace am::inspect
