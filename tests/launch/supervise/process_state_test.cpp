#include "am/launch/supervise/process_state.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

using namespace am::launch;

TEST_CASE("a process is running, stopped or ended") {
  CHECK(process_state(::getpid()) == ProcessState::kRuns);
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  ::kill(child, SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  CHECK(process_state(child) == ProcessState::kStopped);
  CHECK(to_string(process_state(child)) == "stopped");
  ::kill(child, SIGKILL);
  siginfo_t info = {};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(process_state(child) == ProcessState::kEnded);  // a zombie
  ::waitpid(child, nullptr, 0);
  CHECK(process_state(child) == ProcessState::kEnded);  // the process does not exist any more
}
