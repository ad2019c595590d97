// Limits the size of files, to simulate a full disk.
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <stdexcept>

namespace am {

// While the object exists, no file of this process grows beyond `bytes`.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit own = {bytes, before_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &own) != 0) throw std::runtime_error("no limit of file sizes");
    handler_ = std::signal(SIGXFSZ, SIG_IGN);  // otherwise SIGXFSZ would end the process
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

}  // namespace am
