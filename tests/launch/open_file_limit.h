// Classes that restrict the open files of this process until the object is destroyed. OpenFiles
// sets the limit; FewDescriptors leaves only a few descriptors free.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "am/launch/cause/rank_state.h"

namespace launch_test {

// Formats a number in the library, so that UBSan's vptr check already knows the stream types that
// the library uses. At the first use of a type, the check inspects the object through a pipe.
// Without a free descriptor, the check would report a valid object as invalid.
inline void use_streams_once() { static_cast<void>(am::launch::state_key_in_store(0, 0)); }

class OpenFiles {
 public:
  // If `hard` is 0, the hard limit is unchanged. An unprivileged process cannot raise the hard
  // limit again after lowering it.
  explicit OpenFiles(rlim_t soft, rlim_t hard = 0) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit own = {soft, hard == 0 ? before_.rlim_max : hard};
    if (::setrlimit(RLIMIT_NOFILE, &own) != 0) throw std::runtime_error("no limit of open files");
  }
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;
  ~OpenFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

// Leaves this process only `free` descriptors by opening all others, until the object is destroyed.
class FewDescriptors {
 public:
  explicit FewDescriptors(int free) : limit_(highest() + 2) {
    use_streams_once();
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken_.push_back(fd);
    give_back(free);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { give_back(static_cast<int>(taken_.size())); }

  void give_back(int count) {
    for (; count > 0 && !taken_.empty(); --count) {
      ::close(taken_.back());
      taken_.pop_back();
    }
  }

 private:
  static rlim_t highest() {
    rlim_t highest = 16;  // lower bound; the limit is 18 above the highest open descriptor
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      highest = std::max<rlim_t>(highest, std::stoul(entry.path().filename().string()));
    }
    return highest + 16;
  }

  OpenFiles limit_;
  std::vector<int> taken_;
};

}  // namespace launch_test
