#include "am/run_folder/run_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "am/base/date.h"
#include "am/base/descriptor.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/host.h"
#include "am/base/json.h"
#include "am/base/json_integer.h"
#include "am/base/signals_blocked.h"
#include "am/base/text.h"
#include "am/run_folder/process_begin.h"

// Note [Who holds a run folder] The holder of a lock is the process that the lock file names. If
// the kernel can lock the file (flock), the kernel's lock decides which of two jobs gets the
// folder. Child processes inherit the kernel's lock. The kernel releases its lock when the holder
// and these child processes have ended for any reason. A job whose launcher was killed thus keeps
// the folder until its last rank has ended. All processes of one machine share a kernel. If a
// process gets the kernel's lock, and the file names a holder of the same machine and boot, this
// holder has therefore ended.
//
// On a network file system the kernel's lock may exclude only processes of one machine, or not work
// at all (ENOLCK). A holder therefore also touches the file every `beat`. A process that finds a
// holder of another machine or boot watches the file for the time `silence`: if the file's
// modification time, inode or text changes, the holder is alive. The modification time is never
// compared with a clock, because the clocks of machines differ. If the holder's machine was
// switched off, the next job therefore waits for `silence`. A holder on another machine that is
// stopped (SIGSTOP) for longer than `silence` is wrongly regarded as ended.

namespace am::run_folder {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

struct LockHolder {
  std::string host;
  int64_t pid = 0;
  std::string boot;
  int64_t begun = 0;  // start time (process_begin.h), because process ids are reused
  std::string since;
  std::string job;
};

LockHolder myself(const std::string& job) {
  return {host_name(), ::getpid(), boot_id(), process_begin(::getpid()), local_date(), job};
}

std::string to_text(const LockHolder& holder) {
  const Json json = {{"host", holder.host},   {"pid", holder.pid},     {"boot_id", holder.boot},
                     {"begun", holder.begun}, {"since", holder.since}, {"job", holder.job}};
  return dump_json(json, -1) + "\n";
}

// Returns the holder that the lock file names; nullopt for an empty file. If the file's text is not
// a complete description of a holder, returns an empty LockHolder, which means an unknown holder.
std::optional<LockHolder> holder_in(const fs::path& file) {
  const std::string text = read_file(file);
  if (trim(text).empty()) return std::nullopt;
  LockHolder holder;
  try {
    const Json json = Json::parse(text);
    holder.host = json.at("host").get<std::string>();
    holder.pid = integer_of(json.at("pid"));
    holder.boot = json.at("boot_id").get<std::string>();
    holder.begun = integer_of(json.at("begun"));
    holder.since = json.at("since").get<std::string>();
    holder.job = json.at("job").get<std::string>();
  } catch (const Json::exception&) {
    return LockHolder{};
  }
  return holder;
}

std::string name_of(const LockHolder& holder) {
  if (holder.pid == 0) return "an unknown process";
  return cat("process ", holder.pid, " on ", holder.host);
}

Error refusal(const fs::path& folder, const std::optional<LockHolder>& holder) {
  const LockHolder who = holder.value_or(LockHolder{});
  const std::string details =
      who.pid == 0 ? "" : cat(", since ", who.since, who.job.empty() ? "" : cat(", job ", who.job));
  return Error(
      ErrorKind::kPlan,
      cat(folder.string(), ": another job writes to this folder: ", name_of(who), details),
      "wait until the other job ends, or end it; or give this job another folder with --run-dir "
      "(or with checkpoint.dir, if that key names this folder)");
}

Error cannot(const fs::path& file, const char* what) {
  return Error(ErrorKind::kIo, cat(file.string(), ": ", what, ": ", std::strerror(errno)));
}

enum class KernelLock { kMine, kTaken, kNone };

KernelLock lock_file(int fd, std::chrono::milliseconds patience) {
  const auto end = Clock::now() + patience;
  for (;;) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return KernelLock::kMine;
    if (errno != EWOULDBLOCK && errno != EINTR) return KernelLock::kNone;
    if (Clock::now() >= end) return KernelLock::kTaken;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// Returns the lock file's inode, modification time and text. The modification time changes every
// LockOptions::beat while the holder is alive. Opens the file at each call, so that a network file
// system requests the current state from its server.
std::string sign_of_life(const fs::path& file) {
  struct stat info = {};
  const std::string text = read_file(file);
  if (::stat(file.c_str(), &info) != 0) return "gone";
  return cat(info.st_ino, " ", info.st_mtim.tv_sec, " ", info.st_mtim.tv_nsec, " ", text);
}

bool shows_life(const fs::path& file, std::chrono::milliseconds silence) {
  const std::string first = sign_of_life(file);
  const auto end = Clock::now() + silence;
  while (Clock::now() < end) {
    std::this_thread::sleep_for(
        std::min<std::chrono::milliseconds>(silence / 10, std::chrono::seconds(1)));
    if (sign_of_life(file) != first) return true;
  }
  return false;
}

bool is_of_this_boot(const LockHolder& holder) {
  return !holder.boot.empty() && holder.boot == boot_id();
}

// Returns whether the holder's process exists. Valid only for a holder of this machine and boot.
bool process_is_there(const LockHolder& holder) {
  return holder.begun != 0 && process_begin(holder.pid) == holder.begun;
}

KernelLock lock_file(int fd, const fs::path& path, const LockOptions& options) {
  if (!options.kernel_lock) return KernelLock::kNone;
  const KernelLock lock = lock_file(fd, options.patience);
  if (lock != KernelLock::kTaken) return lock;
  const auto holder = holder_in(path);
  if (!holder || !is_of_this_boot(*holder) || process_is_there(*holder)) return lock;
  return lock_file(fd, options.aftermath);
}

bool is_alive(const fs::path& file, const LockHolder& holder, KernelLock lock,
              const LockOptions& options) {
  if (!is_of_this_boot(holder)) return shows_life(file, options.silence);
  return lock != KernelLock::kMine && process_is_there(holder);
}

}  // namespace

struct RunLock::Held {
  Held(int descriptor, std::chrono::milliseconds beat) : fd(descriptor) {
    const SignalsBlocked blocked;
    thread = std::thread([this, beat] { live(beat); });
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    thread.join();
    if (::ftruncate(fd, 0) != 0) {
      // A failure is harmless. The lock file then still names this process, and the next job finds
      // that this process has ended.
    }
    ::close(fd);
  }

  void live(std::chrono::milliseconds beat) {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, beat, [this] { return ending; })) ::futimens(fd, nullptr);
  }

  int fd;
  std::mutex mutex;
  std::condition_variable changed;
  bool ending = false;
  std::thread thread;
};

namespace {

void write_holder(const Descriptor& file, const fs::path& path, const std::string& text) {
  // Overwrites the file in place. A new file of this name would not have the kernel's lock, which
  // belongs to the inode.
  const bool written =
      ::ftruncate(file.get(), 0) == 0 &&
      ::pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      (sync_retrying(file.get()) == 0 || errno == EINVAL);
  if (!written) throw cannot(path, "cannot write the lock");
}

}  // namespace

RunLock RunLock::take(const fs::path& folder, const LockOptions& options) {
  const fs::path path = folder / kLockName;
  Descriptor file(open_own_file(path, O_RDWR | O_CREAT));
  if (file.get() < 0) throw cannot(path, "cannot open the lock");
  ::fcntl(file.get(), F_SETFD, 0);  // child processes inherit the kernel's lock
  const KernelLock kernel = lock_file(file.get(), path, options);
  const auto holder = holder_in(path);
  if (kernel == KernelLock::kTaken) throw refusal(folder, holder);
  if (holder && is_alive(path, *holder, kernel, options)) throw refusal(folder, holder);
  const std::string own = to_text(myself(options.job));
  write_holder(file, path, own);
  if (kernel == KernelLock::kNone) {
    // Two jobs may have written the lock file at nearly the same time. The job whose text is in the
    // file after `patience` holds the lock.
    std::this_thread::sleep_for(options.patience);
    if (read_file(path) != own) throw refusal(folder, holder_in(path));
  }
  auto held = std::make_unique<Held>(file.release(), options.beat);
  return RunLock(std::move(held), holder ? name_of(*holder) : "");
}

bool RunLock::is_held_for(const fs::path& folder, const std::string& job) {
  const fs::path path = folder / kLockName;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return false;
  const auto holder = holder_in(path);
  return holder && holder->job == job;
}

RunLock::RunLock(std::unique_ptr<Held> held, std::string left_by)
    : held_(std::move(held)), left_by_(std::move(left_by)) {}
RunLock::RunLock(RunLock&& other) noexcept = default;
RunLock::~RunLock() = default;

}  // namespace am::run_folder
