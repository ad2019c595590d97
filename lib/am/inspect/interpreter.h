// Declares the interface that executes commands. The implementations execute them in this process,
// in the ranks of a plan, or in a running job.
//
//   Outcome outcome = interpreter.run("ls *.weight");   // see values::open_target()
#pragma once

#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/inspect/command.h"

namespace am::inspect {

// Facts of a session that the prompt and completion need.
struct SessionFacts {
  std::string title;                    // for the prompt, for example "llama step-300 [dp_shard 2]"
  std::vector<std::string> parameters;  // names of all parameters
  std::vector<std::string> modules;     // names of all modules that have parameters
  std::string note;                     // text that is shown once at the start; may be empty
};

SessionFacts facts_of(const Session& session);

// Thrown when a session ends early: because a rank died, because the job ended, or because the user
// interrupted the session. `report` describes the reason, in lines that each end with a newline.
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
  // Runs a command. An error of the command is part of the outcome; SessionLost is thrown only if
  // the session has ended.
  virtual Outcome run(const std::string& input) = 0;
  // Sets the size of the terminal for further output.
  virtual void set_window(int /*columns*/, int /*rows*/) {}
};

// Executes commands in this process, with a session of one rank.
class LocalInterpreter : public Interpreter {
 public:
  explicit LocalInterpreter(Session session);

  const SessionFacts& facts() const override { return facts_; }
  Outcome run(const std::string& input) override;
  void set_window(int columns, int rows) override { session_.set_window(columns, rows); }

 private:
  Session session_;
  SessionFacts facts_;
};

}  // namespace am::inspect
