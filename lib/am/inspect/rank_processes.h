// The ranks of a plan as local processes, which am-repl holds during a session.
//
// launch::supervise runs a job to its end; a session communicates with its ranks instead. Each rank
// gets torchrun's environment variables and one end of a socket pair, and runs every command
// (collectives need all ranks); rank 0's answer is shown. The kernel kills the ranks when this
// process ends.
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
  std::vector<std::optional<Json>> replies;
  std::chrono::steady_clock::time_point since;
  std::optional<std::chrono::steady_clock::time_point> interrupted;
  bool given_up = false;
  std::string named;  // last notice about ranks that do not answer
};

class RankProcesses : public Interpreter {
 public:
  // Starts `ranks` processes of `argv`, with a socket's descriptor number appended, and waits until
  // all have loaded the model. Throws the error of a rank that could not open the plan, or
  // SessionLost.
  RankProcesses(const std::vector<std::string>& argv, const WorkerSetup& setup, int64_t ranks,
                WaitOptions wait, const term::Style& style);
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  ~RankProcesses() override;

  const SessionFacts& facts() const override { return facts_; }
  // A rank that does not answer is named after two seconds. The first interrupt is passed on to the
  // ranks. If they do not end the command, it is abandoned: it continues in the background, and the
  // next command that needs the ranks waits for it. A second interrupt ends the session.
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
  // Receives one message from every rank into `pending_`. Returns false if the user gives the
  // command up.
  bool receive_all();
  std::vector<Json> take_replies();
  // Returns false if the command is given up. Throws SessionLost if the user ends the session.
  bool obey_interrupt();
  void name_missing();
  std::string missing_text() const;
  std::vector<size_t> missing(bool stopped_only) const;
  launch::RankExit end_rank(int64_t index, std::optional<Json> reply);
  // Ends the session and throws a report that names the rank that failed first.
  [[noreturn]] void fail();
  void end_ranks();
  // Watches the ranks while no command runs; reports once that a rank has exited.
  void keep();
  void set_busy(bool busy);

  // Rendezvous of the ranks, served on loopback without a password.
  std::unique_ptr<launch::StoreServer> store_;
  std::vector<Rank> ranks_;
  WaitOptions wait_;
  term::Style style_;
  std::optional<PendingCommand> pending_;
  SessionFacts facts_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaving_ = false;
  bool busy_ = false;  // a command is running; run() detects exits
  std::thread keeper_;
};

}  // namespace am::inspect
