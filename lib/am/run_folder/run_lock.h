// Lock that allows only one job at a time to use a run folder, because two jobs would remove each
// other's checkpoints and mix their metrics.
//
//   const RunLock lock = RunLock::take(run.root(), {.job = job});   // held until destroyed
//
// The file `lock` in the folder describes the process that holds the lock (the holder) as JSON. If
// no process holds the lock, the file is empty or describes a process that has ended. See Note [Who
// holds a run folder] in run_lock.cpp.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace am::run_folder {

inline constexpr const char* kLockName = "lock";

struct LockOptions {
  // Id of the job. Another process that finds the folder locked shows this id in its error message.
  std::string job;
  // Time for which take() waits for the lock, because the holder may be about to exit. If the file
  // system has no locks, take() always waits this long, to detect another job that takes the lock
  // at the same time.
  std::chrono::milliseconds patience = std::chrono::seconds(2);
  // Additional time for which take() waits if the holder was killed, so that its ranks can end.
  std::chrono::milliseconds aftermath = std::chrono::seconds(30);
  // Interval at which the holder touches the lock file, as a sign that it is alive.
  std::chrono::milliseconds beat = std::chrono::seconds(5);
  // Time after which a holder counts as ended if it has not touched the file. Applies to holders on
  // another machine, and to holders from before the last boot of this machine.
  std::chrono::milliseconds silence = std::chrono::seconds(16);
  // False in tests only: the file is not locked in the kernel, as on a file system without locks.
  bool kernel_lock = true;
};

class RunLock {
 public:
  // Takes the lock of an existing folder. Throws Error(kPlan) if another process holds the lock. If
  // the lock file names the other process, the message contains that process's id, host and job,
  // and the time at which it took the lock. Throws Error(kIo) if the lock file cannot be opened,
  // read or written.
  static RunLock take(const std::filesystem::path& folder, const LockOptions& options);
  // Returns whether the folder's lock file names a holder with the job id `job`; does not check
  // whether the holder is alive. Throws Error(kIo) if the lock file cannot be read.
  static bool is_held_for(const std::filesystem::path& folder, const std::string& job);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  // Returns a description of the previous holder if this holder ended without releasing the lock,
  // for example "process 17 on node-3". Returns an empty string otherwise.
  const std::string& left_by() const { return left_by_; }

 private:
  struct Held;
  explicit RunLock(std::unique_ptr<Held> held, std::string left_by);

  std::unique_ptr<Held> held_;
  std::string left_by_;
};

}  // namespace am::run_folder
