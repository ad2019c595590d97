#include "am/base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace am {
namespace {

#ifndef MFD_NOEXEC_SEAL
constexpr unsigned MFD_NOEXEC_SEAL = 0x0008U;  // Linux 6.3
#endif

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

int open_memory_file(const char* name, FileSize size) {
  const unsigned flags = MFD_CLOEXEC | (size == FileSize::kFixed ? MFD_ALLOW_SEALING : 0U);
  const int fd = ::memfd_create(name, flags | MFD_NOEXEC_SEAL);
  // Kernels before Linux 6.3 reject MFD_NOEXEC_SEAL and do not need the flag, so the call is
  // repeated without it.
  return fd < 0 && errno == EINVAL ? ::memfd_create(name, flags) : fd;
}

bool fix_size(int fd, long bytes) {
  return ::ftruncate(fd, bytes) == 0 && ::fcntl(fd, F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) == 0;
}

bool has_fixed_size(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSizeSeals) == kSizeSeals;
}

}  // namespace am
