// The processes of one node's ranks: started, watched, signalled, reaped. No policy.
//
//   RankChildren children(spec, output);
//   children.start(port);
//   while (children.running() > 0) {
//     poll(children.output_fd(), SIGCHLD ...);
//     children.pump();
//     for (RankChild* ended : children.reap(false)) judge(ended->exit);
//   }
//
// Each rank leads a process group: what it starts is signalled with it, and ends with it.
#pragma once

#include <sys/types.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "am/launch/cause/job_result.h"
#include "am/launch/cause/rank_error.h"
#include "am/launch/cause/rank_log.h"
#include "am/launch/supervise/job_spec.h"
#include "am/launch/supervise/log_folder.h"
#include "am/launch/supervise/orphan_guard.h"
#include "am/launch/supervise/process.h"

namespace am::launch {

struct RankChild {
  pid_t pid = 0;    // 0: ended and reaped
  pid_t group = 0;  // of an ended rank: processes that it left behind, which may end in peace
  RankLog log;
  ErrorPipe errors;
  std::array<bool, NSIG> sent = {};  // signals that the launcher sent it
  RankExit exit;
};

class RankChildren {
 public:
  // `output` gets rank 0's bytes. The spec must outlive this object. Throws Error(kIo).
  RankChildren(const JobSpec& spec, std::function<void(std::string_view)> output);
  RankChildren(const RankChildren&) = delete;
  RankChildren& operator=(const RankChildren&) = delete;
  // Only a fault leaves processes here: none may outlive the launcher.
  ~RankChildren();

  // Throws Error(kIo) or Error(kRuntime) when one cannot be started.
  void start(int master_port);

  int64_t running() const;                 // ranks that have not ended
  int64_t lingering() const;               // ended ranks that left processes behind
  int output_fd() const { return pipe_; }  // readable when rank 0 wrote; -1 when it closed
  void pump();

  // The ranks that ended since the last call. What they left behind is killed, or, when `patient`,
  // left to end by itself: it was told to, and may be saving.
  std::vector<RankChild*> reap(bool patient);

  // Ranks that run and of whose processes one is stopped now: by SIGSTOP, a terminal or a debugger.
  std::vector<RankChild*> suspended();

  // To the whole group of each rank that runs, and to what ended ones left behind.
  void signal(int number);

  const std::vector<RankChild>& all() const { return children_; }

 private:
  ProcessSpec process_of(int64_t local_rank, int port, int output_fd,
                         const ErrorPipe& errors) const;
  void close_pipe();
  void forget_group(RankChild& child);

  const JobSpec& spec_;
  std::function<void(std::string_view)> output_;
  LogFolder folder_;
  OrphanGuard guard_;
  std::vector<RankChild> children_;
  int pipe_ = -1;
};

}  // namespace am::launch
