// The ranks of a plan as processes of this machine, held by am-repl while a session lasts.
//
// launch::supervise runs a job to its end; a session talks to its ranks instead. Each rank gets
// torchrun's variables and one end of a socket pair, runs every command (collectives need all of
// them), and rank 0's answer is shown. They die with this process: the kernel kills them when it
// ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "am/inspect/interpreter.h"
#include "am/inspect/wait_options.h"
#include "am/inspect/worker_setup.h"
#include "am/launch/cause/job_result.h"
#include "am/launch/cause/rank_log.h"
#include "am/launch/nodes/store_server.h"

namespace am::inspect {

// The command that ranks are at.
struct PendingCommand {
  std::string input;
  std::vector<std::optional<Json>> replies;
  std::chrono::steady_clock::time_point since;
  std::optional<std::chrono::steady_clock::time_point> interrupted;
  bool given_up = false;
  std::string named;  // what was last said of ranks that do not answer
};

class RankProcesses : public Interpreter {
 public:
  // Starts `ranks` processes of `argv` with a socket's number appended, and waits until all hold
  // the model. Throws what a rank threw while it opened the plan, or SessionLost.
  RankProcesses(const std::vector<std::string>& argv, const WorkerSetup& setup, int64_t ranks,
                WaitOptions wait, const term::Style& style);
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  ~RankProcesses() override;

  const SessionFacts& facts() const override { return facts_; }
  // A rank that does not answer is named after two seconds. The first interrupt is passed on to the
  // ranks; when they do not end the command then, it is given up: it goes on behind the prompt, and
  // the next command that needs the ranks waits for it. Another interrupt ends the session.
  Outcome run(const std::string& input) override;
  void set_width(int columns) override { style_.width = columns; }

 private:
  struct Rank {
    pid_t pid = 0;
    int socket = -1;
    launch::RankLog log;
  };

  void start(const std::vector<std::string>& argv, int64_t ranks);
  void send_all(const Json& message);
  void begin(const std::string& input);
  // One message from every rank to `pending_`. False when the user gave the command up before.
  bool receive_all();
  std::vector<Json> take_replies();
  // False when the command is given up. Throws SessionLost when the user ends the session.
  bool obey_interrupt();
  void name_missing();
  std::string missing_text() const;
  std::vector<size_t> missing(bool stopped_only) const;
  launch::RankExit end_rank(int64_t index, std::optional<Json> reply);
  // Ends the session: says which rank failed first.
  [[noreturn]] void fail();
  void end_ranks();
  // While no command is under way: says once that a rank has gone.
  void keep();
  void set_busy(bool busy);

  // Through which the ranks meet. It is served here, on loopback: there is no password.
  std::unique_ptr<launch::StoreServer> store_;
  std::vector<Rank> ranks_;
  WaitOptions wait_;
  term::Style style_;
  std::optional<PendingCommand> pending_;
  SessionFacts facts_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaving_ = false;
  bool busy_ = false;  // a command is under way, and sees the end itself
  std::thread keeper_;
};

}  // namespace am::inspect
