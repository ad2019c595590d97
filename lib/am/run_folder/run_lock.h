// One job at a time in a folder: two would remove each other's checkpoints and mix their metrics.
//
//   const RunLock lock = RunLock::take(run.root(), {.job = job});   // held until it goes
//
// The file `lock` of the folder says who holds it, as JSON; it is empty when nobody does. See Note
// [Who holds a run folder] in run_lock.cpp.
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
  std::string job;  // for whoever meets the lock
  // How long a holder may take to go, that was asked to a moment ago.
  std::chrono::milliseconds patience = std::chrono::seconds(2);
  // How long the ranks of a holder that was killed may take to die.
  std::chrono::milliseconds aftermath = std::chrono::seconds(30);
  // A holder shows a sign of life so often.
  std::chrono::milliseconds beat = std::chrono::seconds(5);
  // One of another machine that shows none for so long is gone.
  std::chrono::milliseconds silence = std::chrono::seconds(16);
  // False: as on a file system that carries no locks.
  bool kernel_lock = true;
};

class RunLock {
 public:
  // The folder is there. Throws Error(kPlan) that names the holder (host, process id, since when),
  // Error(kIo) when the file cannot be written.
  static RunLock take(const std::filesystem::path& folder, const LockOptions& options);
  // Whether the folder's lock names this job. Throws Error(kIo) for one that cannot be read.
  static bool is_held_for(const std::filesystem::path& folder, const std::string& job);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  // Whose lock was left behind by a job that ended without a word: "process 17 on node-3"; mostly
  // empty.
  const std::string& left_by() const { return left_by_; }

 private:
  struct Held;
  explicit RunLock(std::unique_ptr<Held> held, std::string left_by);

  std::unique_ptr<Held> held_;
  std::string left_by_;
};

}  // namespace am::run_folder
