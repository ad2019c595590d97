// Attaches am-repl to a running job. am-repl sends commands to rank 0 of the job. Commands that
// read tensors run on all ranks of the job between two steps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "am/control/client.h"
#include "am/inspect/interpreter.h"
#include "am/inspect/session.h"
#include "am/inspect/wait_options.h"

namespace am::inspect {

// session_request() converts the session options of a client to JSON; requested_session() converts
// this JSON back on the ranks.
Json session_request(const SessionOptions& options);
SessionOptions requested_session(const Json& json);

struct AttachOptions {
  SessionOptions session;
  WaitOptions wait;
  bool write = false;  // allow commands that change the job
};

class AttachedJob : public Interpreter {
 public:
  // Connects to the job of the run folder `run`. Throws Error(kRuntime) if the job cannot be
  // reached or refuses the session, and Error(kFormat) if the peer is not a job.
  AttachedJob(const control::JobAddress& address, const std::filesystem::path& run,
              const AttachOptions& options);
  AttachedJob(const AttachedJob&) = delete;
  AttachedJob& operator=(const AttachedJob&) = delete;
  ~AttachedJob() override;

  const SessionFacts& facts() const override { return facts_; }
  // Runs a command in the job. The first interrupt requests the job to cancel the command; a second
  // interrupt ends the session. Throws SessionLost if the session or the job has ended.
  Outcome run(const std::string& input) override;
  void set_window(int columns, int rows) override {
    style_.width = columns;
    style_.height = rows;
  }

 private:
  // Waits for the answer to command `id` and returns the answer. `lasts`: the command waits for
  // steps of the job, so a long silence is normal.
  Json wait_for(int64_t id, bool lasts);
  // Shows the text of one event of the job; the event "ended" sets end_ instead.
  void tell(const Json& event);
  // Calls tell() for all events that have arrived.
  void tell_what_came();
  // Throws SessionLost with the reason why the connection is lost.
  [[noreturn]] void lost();
  // Runs in thread keeper_: sends keep-alive messages. While no command runs, also reports the
  // job's events and the end of the job.
  void keep();

  WaitOptions wait_;
  term::Style style_;
  std::filesystem::path run_;
  control::Client client_;
  SessionFacts facts_;
  std::string end_;    // last message of the job, which explains the end of the job
  bool gone_ = false;  // set if the connection has ended or the user has ended the session

  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaving_ = false;
  bool busy_ = false;  // set during run(), which then reports the end of the job
  std::thread keeper_;
};

}  // namespace am::inspect
