// Runs the ranks of a plan as local processes, for the duration of an am-repl session.
//
// launch::supervise() only starts ranks and watches them; a session also exchanges messages with
// its ranks. Each rank receives the environment variables of torchrun and one end of a socket pair.
// All ranks run every command that needs a session, because collectives need all ranks. Only the
// answer of rank 0 is shown. The kernel kills the ranks when this process ends.
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

// The command that the ranks are running.
struct PendingCommand {
  std::string input;
  std::vector<std::optional<Json>> replies;     // by rank; absent: the rank has not answered
  std::chrono::steady_clock::time_point since;  // start of the wait for replies
  // Time at which the user first interrupted the command.
  std::optional<std::chrono::steady_clock::time_point> interrupted;
  bool given_up = false;  // set once a later command waits for these replies
  std::string named;      // ranks listed by the last notice about missing replies
};

class RankProcesses : public Interpreter {
 public:
  // Starts `ranks` processes with the command line `argv`, to which the descriptor number of a
  // socket is appended, and waits until all of them have loaded the model. Throws the error of a
  // rank that could not open the plan, or SessionLost if a rank died or the user interrupted the
  // start.
  RankProcesses(const std::vector<std::string>& argv, const WorkerSetup& setup, int64_t ranks,
                WaitOptions wait, const term::Style& style);
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  ~RankProcesses() override;

  const SessionFacts& facts() const override { return facts_; }
  // Runs a command on all ranks, and returns the outcome on rank 0. If the command succeeds on some
  // ranks and fails on others, ends the session and throws SessionLost.
  //
  // After two seconds, if some ranks have answered or are stopped (for example by SIGSTOP), a
  // notice lists the ranks that have not answered. The user's first interrupt is forwarded to the
  // ranks. If the ranks do not end the command within two seconds, or if a rank is stopped, the
  // command is abandoned: the ranks continue the command in the background, and the next command
  // that needs the ranks first waits for the end of the abandoned one. A second interrupt ends the
  // session.
  Outcome run(const std::string& input) override;
  void set_window(int columns, int rows) override {
    style_.width = columns;
    style_.height = rows;
  }

 private:
  struct Rank {
    pid_t pid = 0;
    int socket = -1;
    launch::RankLog log;
  };

  void start(const std::vector<std::string>& argv, int64_t ranks);
  void send_all(const Json& message);
  void begin(const std::string& input);
  // Waits until every rank has sent a reply, and stores the replies in `pending_`. Returns false if
  // the command is abandoned after an interrupt.
  bool receive_all();
  std::vector<Json> take_replies();
  // Forwards an interrupt of the user to the ranks. Returns false if the command must be abandoned,
  // because a rank is stopped or the ranks have not ended the command in time. Throws SessionLost
  // after a second interrupt.
  bool obey_interrupt();
  void name_missing();
  std::string missing_text() const;
  std::vector<size_t> missing(bool stopped_only) const;
  launch::RankExit end_rank(int64_t index, std::optional<Json> reply);
  // Ends the session. Throws SessionLost with a report about the rank that failed first.
  [[noreturn]] void fail();
  void end_ranks();
  // Runs in thread keeper_: watches the ranks while busy_ is false. Calls WaitOptions::notice for
  // the first rank that has exited, and returns.
  void keep();
  void set_busy(bool busy);

  // Store for the rendezvous of the ranks, served on loopback without a password.
  std::unique_ptr<launch::StoreServer> store_;
  std::vector<Rank> ranks_;
  WaitOptions wait_;
  term::Style style_;
  std::optional<PendingCommand> pending_;
  SessionFacts facts_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaving_ = false;
  bool busy_ = false;  // set while replies are pending; keep() then reports nothing
  std::thread keeper_;
};

}  // namespace am::inspect
