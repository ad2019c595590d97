#include "am/run_folder/held_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/run_folder/run_lock.h"

// Note [The same folder]: a path leads to the opened folder if both have the same inode number. The
// folder is kept open, because the inode number of a deleted folder may be reused. But some
// user-space file systems assign a new inode number at every lookup. If the inode numbers differ,
// the time stamps of the opened folder, or of its lock file, are therefore changed through the open
// descriptor. If the path then shows these time stamps, the path leads to the opened folder or
// file, and not to a copy.

namespace am::run_folder {

namespace fs = std::filesystem;

namespace {

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

enum class Found { kSame, kOther, kNothing };

// Compares the folder or file that is now at the path with the opened one, `held`. Returns kNothing
// if nothing is at the path, and kSame if the two cannot be compared.
Found find(const fs::path& path, const Descriptor& held) {
  struct stat ours {};
  struct stat there {};
  if (held.get() < 0 || ::fstat(held.get(), &ours) != 0) return Found::kSame;
  if (::stat(path.c_str(), &there) != 0) {
    const bool gone = errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ESTALE;
    return gone ? Found::kNothing : Found::kSame;
  }
  return is_same(ours, there) ? Found::kSame : Found::kOther;
}

// Whether the folder or file at the path has the modification time of the opened one, `held`. Tries
// several times, because a file system may cache time stamps for a second.
bool shows(const fs::path& path, const Descriptor& held) {
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    struct stat ours {};
    struct stat there {};
    if (::fstat(held.get(), &ours) != 0 || ::stat(path.c_str(), &there) != 0) return false;
    if (ours.st_mtim.tv_sec == there.st_mtim.tv_sec &&
        ours.st_mtim.tv_nsec == there.st_mtim.tv_nsec) {
      return true;
    }
  }
  return false;
}

// Whether the folder or file at the path takes on the time stamps that are set on the opened one,
// `held`; see Note [The same folder]. Sets two different times, one after the other: a file that
// was created at this moment may have one of these times by chance, but not both.
bool shows_our_touches(const fs::path& path, const Descriptor& held) {
  constexpr std::time_t kEarlier = 3;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  for (const std::time_t before : {kEarlier, std::time_t{0}}) {
    const timespec time = {now.tv_sec - before, now.tv_nsec};
    const timespec times[] = {time, time};
    if (::futimens(held.get(), times) != 0 || !shows(path, held)) return false;
  }
  return true;
}

// Returns the current path of the opened folder; nullopt if it was removed, or moved to a place
// that this machine cannot see.
std::optional<fs::path> place_of(const Descriptor& folder) {
  struct stat ours {};
  struct stat there {};
  std::error_code failed;
  const fs::path place = fs::read_symlink(cat("/proc/self/fd/", folder.get()), failed);
  if (failed || ::fstat(folder.get(), &ours) != 0 || ::stat(place.c_str(), &there) != 0 ||
      !is_same(ours, there)) {
    return std::nullopt;
  }
  return place;
}

}  // namespace

HeldFolder::HeldFolder(fs::path path)
    : path_(std::move(path)),
      folder_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      lock_(::open((path_ / kLockName).c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {}

fs::path HeldFolder::anywhere() const {
  return find(path_, folder_) == Found::kSame ? path_ : opened();
}

fs::path HeldFolder::opened() const {
  return folder_.get() < 0 ? path_ : fs::path(cat("/proc/self/fd/", folder_.get()));
}

void HeldFolder::require() const {
  if (folder_.get() < 0) return;
  const bool locked = lock_.get() >= 0;
  const Found folder = find(path_, folder_);
  const Found lock = find(path_ / kLockName, lock_);
  if (lock == Found::kSame && (locked || folder == Found::kSame)) return;
  if (locked && lock == Found::kOther && shows_our_touches(path_ / kLockName, lock_)) return;
  if (!locked && folder == Found::kOther && shows_our_touches(path_, folder_)) return;
  const std::string ended = "; the job has ended, because it could no longer save";
  if (folder == Found::kSame) {
    throw Error(ErrorKind::kIo,
                cat(path_.string(), ": its file ", kLockName, " was ",
                    lock == Found::kNothing ? "removed" : "replaced",
                    " while the job ran, which unlocks the folder for other jobs", ended),
                "leave this file alone; the job continues from its last checkpoint when it is "
                "started again");
  }
  const auto place = place_of(folder_);
  const std::string fate = folder == Found::kOther
                               ? "this path now leads to another folder; this job's folder was "
                               : "the folder was ";
  const std::string how = place ? cat("moved to ", place->string()) : "removed or moved";
  throw Error(ErrorKind::kIo, cat(path_.string(), ": ", fate, how, " while the job ran", ended),
              place ? cat("continue from there with --run-dir ", place->string(),
                          "; or, if it was the folder of checkpoint.dir, set this key to that path")
                    : "start the job again, and do not move or remove its folder while it runs");
}

}  // namespace am::run_folder
