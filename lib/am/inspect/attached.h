// A job that runs, as whoever is attached to it sees it: commands go to its rank 0 and are run on
// all ranks between two steps.
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

// How a client describes itself, and the session that it wants on the ranks.
Json session_request(const SessionOptions& options);
SessionOptions requested_session(const Json& json);

struct AttachOptions {
  SessionOptions session;
  WaitOptions wait;
  bool write = false;  // commands that change the job are wanted
};

class AttachedJob : public Interpreter {
 public:
  // Throws Error(kRuntime) where the job cannot be reached.
  AttachedJob(const control::JobAddress& address, const std::filesystem::path& run,
              const AttachOptions& options);
  AttachedJob(const AttachedJob&) = delete;
  AttachedJob& operator=(const AttachedJob&) = delete;
  ~AttachedJob() override;

  const SessionFacts& facts() const override { return facts_; }
  // The first interrupt asks the job to end the command; another leaves it. Throws SessionLost when
  // the job has gone.
  Outcome run(const std::string& input) override;
  void set_width(int columns) override { style_.width = columns; }

 private:
  // `lasts`: it may take as many steps as it likes.
  Json wait_for(int64_t id, bool lasts);
  void tell(const Json& event);
  void tell_what_came();
  [[noreturn]] void lost();
  // Shows the job that we live, and while nobody asks tells its events and when it has gone.
  void keep();

  WaitOptions wait_;
  term::Style style_;
  std::filesystem::path run_;
  control::Client client_;
  SessionFacts facts_;
  std::string end_;  // what the job said last
  bool gone_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaving_ = false;
  bool busy_ = false;  // a command is under way, whose reader sees the end itself
  std::thread keeper_;
};

}  // namespace am::inspect
