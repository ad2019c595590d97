#include "am/base/old_glibc.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "am/base/child_process.h"

using namespace am;

namespace {

std::string text(const char* words) { return words == nullptr ? "none" : words; }

// Opens descriptors with gaps between their numbers. A forked process calls `close_from` with the
// first descriptor. Returns how many of the descriptors remain open in the forked process; -1 if
// its stdin is closed too.
int open_after(void (*close_from)(int)) {
  std::vector<int> fds;
  for (int i = 0; i < 600; ++i) fds.push_back(::open("/dev/null", O_RDONLY));
  for (size_t i = 1; i < fds.size(); i += 7) ::close(fds[i]);
  const pid_t child = ::fork();
  if (child == 0) {
    close_from(fds.front());
    int open = 0;
    for (const int fd : fds) open += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    ::_exit(::fcntl(STDIN_FILENO, F_GETFD) < 0 ? 255 : std::min(open, 254));
  }
  for (size_t i = 0; i < fds.size(); ++i) {
    if (i % 7 != 1) ::close(fds[i]);
  }
  const int status = await_exit(child);
  return status == 255 ? -1 : status;
}

// Starts a program with the spawn file actions that `add` adds. Returns the numbers of the
// program's open descriptors, one in each line after an empty line.
std::string inherited(void (*add)(posix_spawn_file_actions_t&, int)) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  add(actions, 3);
  std::string program = "/bin/sh";
  std::string option = "-c";
  std::string script = "cd /proc/$$/fd; echo; for f in *; do echo $f; done";
  std::array<char*, 4> argv = {program.data(), option.data(), script.data(), nullptr};
  pid_t child = 0;
  REQUIRE(::posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string out;
  std::array<char, 256> bytes{};
  for (ssize_t size = 0; (size = ::read(ends[0], bytes.data(), bytes.size())) > 0;) {
    out.append(bytes.data(), static_cast<size_t>(size));
  }
  ::close(ends[0]);
  CHECK(await_exit(child) == 0);
  return out;
}

}  // namespace

TEST_CASE("signals have glibc's names") {
  for (int signal = -1; signal <= SIGRTMAX + 1; ++signal) {
    INFO(signal);
    CHECK(text(signal_name(signal)) == text(::sigabbrev_np(signal)));
    CHECK(text(signal_description(signal)) == text(::sigdescr_np(signal)));
  }
}

TEST_CASE("all descriptors from a number on are closed") {
  CHECK(open_after([](int) {}) > 200);
  CHECK(open_after(close_descriptors_from) == 0);
  CHECK(open_after(close_listed_descriptors) == 0);
}

TEST_CASE("a started program inherits no descriptor") {
  const auto has = [](const std::string& lines, const char* fd) {
    return lines.find(std::string("\n") + fd + "\n") != std::string::npos;
  };
  const int low = ::open("/dev/null", O_RDONLY);
  const int open = ::fcntl(low, F_DUPFD, 700);
  const int closed_anyway = ::fcntl(low, F_DUPFD_CLOEXEC, 800);
  const std::string all = inherited([](posix_spawn_file_actions_t&, int) {});
  CHECK(has(all, "1"));
  CHECK(has(all, "700"));
  for (const auto add : {add_close_from, add_close_inherited}) {
    const std::string left = inherited(add);
    CHECK(has(left, "1"));
    CHECK_FALSE(has(left, "700"));
    CHECK_FALSE(has(left, "800"));
  }
  for (const int fd : {low, open, closed_anyway}) ::close(fd);
}
