// Starts, watches, signals and reaps the processes of one node's ranks. The caller decides when.
//
//   RankChildren children(spec, output);
//   children.start(port);
//   while (children.running() > 0) {
//     wait_for_output_or_signal(children.output_fd());
//     children.pump();
//     for (RankChild* ended : children.reap(false)) judge(ended->exit);
//   }
//
// Each rank leads a process group, so that the processes that a rank starts are signalled and
// killed with the rank.
#pragma once

#include <sys/types.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "am/launch/cause/job_result.h"
#include "am/launch/cause/rank_error.h"
#include "am/launch/cause/rank_log.h"
#include "am/launch/supervise/job_spec.h"
#include "am/launch/supervise/orphan_guard.h"
#include "am/launch/supervise/process.h"

namespace am::launch {

// The folder of the ranks' logs: the run's log folder or a temporary one.
class LogFolder {
 public:
  // Creates the folder `wanted` if it is missing. If `wanted` is empty, uses a temporary folder
  // that the destructor removes. Throws Error(kIo).
  explicit LogFolder(const std::filesystem::path& wanted);
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;
  ~LogFolder();

  bool temporary() const { return temporary_; }
  std::filesystem::path log(int64_t rank) const;
  std::filesystem::path error_file(int64_t rank) const;

 private:
  std::filesystem::path path_;
  bool temporary_ = false;
};

struct RankChild {
  pid_t pid = 0;  // the rank's process; 0: ended and reaped
  // Process group of an ended rank while processes that it started still run; otherwise 0.
  pid_t group = 0;
  RankLog log;
  ErrorPipe errors;
  // sent[n]: whether RankChildren::signal() sent signal n to the rank.
  std::array<bool, NSIG> sent = {};
  RankExit exit;
};

class RankChildren {
 public:
  // `output` receives the bytes that rank 0 writes to stdout and stderr. The spec must outlive this
  // object. Throws Error(kIo) if the log folder cannot be created, and Error(kRuntime) if the
  // process of the OrphanGuard cannot be created.
  RankChildren(const JobSpec& spec, std::function<void(std::string_view)> output);
  RankChildren(const RankChildren&) = delete;
  RankChildren& operator=(const RankChildren&) = delete;
  // Kills all remaining processes; some remain only after an exception.
  ~RankChildren();

  // Starts all ranks. Throws Error(kIo) or Error(kRuntime) if a rank cannot be started.
  void start(int master_port);

  int64_t running() const;    // number of ranks that have not ended
  int64_t lingering() const;  // number of ended ranks that left processes running
  // Returns a descriptor that is readable if rank 0 has written or closed its output. Returns -1
  // once pump() has reached the end of the output; if rank 0 is on another node, the first pump()
  // reaches the end.
  int output_fd() const { return pipe_; }
  // Passes rank 0's new output to its log and, if `echoes`, to `output`. Does not block.
  void pump(bool echoes = true);

  // Returns the ranks that ended since the last call. If `patient`, the processes that these ranks
  // left running continue, because they were asked to end and may be saving; otherwise kills these
  // processes.
  std::vector<RankChild*> reap(bool patient);

  // Returns running ranks with a process that is stopped now, by SIGSTOP, a terminal or a debugger.
  std::vector<RankChild*> suspended();

  // Sends the signal to the Unix process group of each rank that runs or left processes running.
  void signal(int number);

  // Sends the signal to each running rank with a handler for the signal, and to no other process.
  // Returns whether any rank was signalled.
  bool signal_handlers(int number) const;

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
