// Who answers commands: a session in this process, or one in the processes of a plan's ranks.
//
//   auto interpreter = open_target("checkpoints/step-300", options, found);
//   Outcome outcome = interpreter->run("ls *.weight");
#pragma once

#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/inspect/command.h"

namespace am::inspect {

// What a prompt and completion need to know of a session.
struct SessionFacts {
  std::string title;                    // "llama step-300 [dp_shard 2]"
  std::vector<std::string> parameters;  // names
  std::vector<std::string> modules;
  std::string note;  // what is worth saying at the beginning; may be empty
};

SessionFacts facts_of(const Session& session);

// The session is over: a rank died. `report` is the whole story, in lines that end with a newline.
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
  // What the command did, its error included. Throws SessionLost when there is no session any more.
  virtual Outcome run(const std::string& input) = 0;
  // Columns of what is drawn from now on: the terminal's, which change.
  virtual void set_width(int /*columns*/) {}
};

// Runs commands in this process.
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
