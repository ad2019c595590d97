#include "am/base/memory_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "support/memfd_filter.h"

using namespace am;

namespace {

bool holds_bytes(int fd) { return ::write(fd, "abc", 3) == 3 && ::lseek(fd, 0, SEEK_END) == 3; }

}  // namespace

TEST_CASE("a file in memory grows, unless its size is fixed") {
  const int log = open_memory_file("log");
  REQUIRE(log >= 0);
  CHECK(holds_bytes(log));
  CHECK_FALSE(has_fixed_size(log));
  CHECK((::fcntl(log, F_GETFD) & FD_CLOEXEC) != 0);
  ::close(log);

  const int fixed = open_memory_file("fixed", FileSize::kFixed);
  REQUIRE(fixed >= 0);
  CHECK_FALSE(has_fixed_size(fixed));
  REQUIRE(fix_size(fixed, 4096));
  CHECK(has_fixed_size(fixed));
  CHECK(::ftruncate(fixed, 0) != 0);
  CHECK(::ftruncate(fixed, 8192) != 0);
  CHECK_FALSE(fix_size(fixed, 8192));
  ::close(fixed);
}

// A seccomp filter simulates a machine with vm.memfd_noexec = 2, which refuses memory files that
// may be executed.
TEST_CASE("a machine where no file in memory may be executed grants ours") {
  for (const FileSize size : {FileSize::kFree, FileSize::kFixed}) {
    int fd = -1;
    bool usable = false;
    const bool filtered = with_memfd_filter({.refused_with_seal = false, .error = EACCES}, [&] {
      fd = open_memory_file("ours", size);
      usable = fd >= 0 && (size == FileSize::kFree ? holds_bytes(fd) : fix_size(fd, 4096));
    });
    if (!filtered) {
      WARN("skipped: this system allows no seccomp filter");
      return;
    }
    CHECK(usable);
    ::close(fd);
  }
}

TEST_CASE("a kernel that has never heard of such files grants ours") {
  int fd = -1;
  bool usable = false;
  const bool filtered = with_memfd_filter({.refused_with_seal = true, .error = EINVAL}, [&] {
    fd = open_memory_file("ours");
    usable = fd >= 0 && holds_bytes(fd);
  });
  if (!filtered) {
    WARN("skipped: this system allows no seccomp filter");
    return;
  }
  CHECK(usable);
  ::close(fd);
}
