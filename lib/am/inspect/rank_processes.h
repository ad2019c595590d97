// The ranks of a plan as processes of this machine, held by am-repl while a session lasts.
//
// launch::supervise runs a job to its end; a session talks to its ranks instead. Each rank gets
// torchrun's variables and one end of a socket pair, runs every command (collectives need all of
// them), and rank 0's answer is shown. They die with this process: the kernel kills them when it
// ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "am/inspect/interpreter.h"
#include "am/inspect/rank_worker.h"
#include "am/launch/job_result.h"
#include "am/launch/rank_log.h"

namespace am::inspect {

class RankProcesses : public Interpreter {
 public:
  // Starts `ranks` processes of `argv` with a socket's number appended, and waits until all hold
  // the model. Throws what a rank threw while it opened the plan, or SessionLost.
  RankProcesses(const std::vector<std::string>& argv, const WorkerSetup& setup, int64_t ranks);
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  ~RankProcesses() override;

  const SessionFacts& facts() const override { return facts_; }
  Outcome run(const std::string& input) override;

 private:
  struct Rank {
    pid_t pid = 0;
    int socket = -1;
    launch::RankLog log;
  };

  void start(const std::vector<std::string>& argv, int64_t ranks);
  void send_all(const Json& message);
  // One message from every rank, by rank.
  std::vector<Json> receive_all();
  void pass_on_interrupt(bool& passed_on);
  launch::RankExit end_rank(int64_t index, std::optional<Json> reply);
  // Ends the session: says which rank failed first. `replies` as far as they came.
  [[noreturn]] void fail(const std::vector<std::optional<Json>>& replies);
  void end_ranks();

  std::vector<Rank> ranks_;
  std::function<bool()> interrupted_;
  SessionFacts facts_;
};

}  // namespace am::inspect
