// Lock that allows one job at a time in a run folder: two jobs would remove each other's
// checkpoints and mix their metrics.
//
//   const RunLock lock = RunLock::take(run.root(), {.job = job});   // held until destroyed
//
// The file `lock` in the folder describes the lock's holder as JSON; the file is empty if there is
// no holder. See Note [Who holds a run folder] in run_lock.cpp.
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
  std::string job;  // id of the job, shown to a process that finds the folder locked
  // Grace period for a holder that has just been asked to exit.
  std::chrono::milliseconds patience = std::chrono::seconds(2);
  // Time that the ranks of a killed holder may take to end.
  std::chrono::milliseconds aftermath = std::chrono::seconds(30);
  // Interval of a holder's signs of life.
  std::chrono::milliseconds beat = std::chrono::seconds(5);
  // Time without a sign of life after which a holder on another machine counts as gone.
  std::chrono::milliseconds silence = std::chrono::seconds(16);
  // False: behaves as on a file system without locks (for tests).
  bool kernel_lock = true;
};

class RunLock {
 public:
  // The folder must exist. Throws Error(kPlan) that names the holder (host, process id, start
  // time), Error(kIo) if the file cannot be written.
  static RunLock take(const std::filesystem::path& folder, const LockOptions& options);
  // Returns whether the folder's lock names this job. Throws Error(kIo) if the lock cannot be read.
  static bool is_held_for(const std::filesystem::path& folder, const std::string& job);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  // Returns the previous holder, such as "process 17 on node-3", if it ended without releasing the
  // lock; usually empty.
  const std::string& left_by() const { return left_by_; }

 private:
  struct Held;
  explicit RunLock(std::unique_ptr<Held> held, std::string left_by);

  std::unique_ptr<Held> held_;
  std::string left_by_;
};

}  // namespace am::run_folder
