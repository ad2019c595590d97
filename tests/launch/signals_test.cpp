#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "am/base/error.h"
#include "am/launch/signal_scope.h"
#include "am/launch/stop_signal.h"
#include "launch/default_action.h"

using namespace am::launch;

namespace {

// Runs `body` in a child process and gives its wait status.
template <typename Body>
int status_of(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a stop is requested by SIGTERM and SIGINT") {
  const int signal = GENERATE(SIGTERM, SIGINT);
  const DefaultAction not_ignored(signal);
  StopSignal stop;
  CHECK_FALSE(stop.requested());
  CHECK(stop.signal() == 0);
  ::raise(signal);
  CHECK(stop.requested());
  CHECK(stop.signal() == signal);
}

TEST_CASE("a stop can be requested from inside, and does not outlive the object") {
  {
    StopSignal stop;
    stop.request();
    CHECK(stop.requested());
    CHECK(stop.signal() == 0);
  }
  StopSignal again;
  CHECK_FALSE(again.requested());
}

TEST_CASE("signals in quick succession are one request, a later one kills") {
  const DefaultAction not_ignored(SIGINT);
  const int once = status_of([] {
    StopSignal stop;
    ::raise(SIGINT);
    ::raise(SIGTERM);
    return stop.requested() ? 7 : 8;
  });
  CHECK(WIFEXITED(once));
  CHECK(WEXITSTATUS(once) == 7);
  const int twice = status_of([] {
    StopSignal stop(0.05);
    ::raise(SIGTERM);
    ::usleep(100000);
    ::raise(SIGTERM);
    return 0;
  });
  CHECK(WIFSIGNALED(twice));
  CHECK(WTERMSIG(twice) == SIGTERM);
}

TEST_CASE("after a request from inside the first signal is still the first") {
  const int once = status_of([] {
    StopSignal stop(0.0);
    stop.request();
    ::raise(SIGTERM);
    return stop.signal();
  });
  CHECK(WIFEXITED(once));
  CHECK(WEXITSTATUS(once) == SIGTERM);
}

TEST_CASE("an ignored SIGINT stays ignored") {
  const int status = status_of([] {
    ::signal(SIGINT, SIG_IGN);
    StopSignal stop;
    ::raise(SIGINT);
    return stop.requested() ? 1 : 0;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("one StopSignal at a time") {
  StopSignal stop;
  CHECK_THROWS_AS(StopSignal(), am::Error);
  ::raise(SIGTERM);  // the first one still works
  CHECK(stop.requested());
}

TEST_CASE("signals arrive in order at the descriptor") {
  SignalScope signals({SIGUSR1, SIGUSR2});
  pollfd wait{signals.fd(), POLLIN, 0};
  CHECK(::poll(&wait, 1, 0) == 0);
  ::raise(SIGUSR2);
  ::raise(SIGUSR1);
  ::raise(SIGUSR2);
  CHECK(::poll(&wait, 1, 0) == 1);
  CHECK(signals.take() == std::vector<int>{SIGUSR2, SIGUSR1, SIGUSR2});
  CHECK(signals.take().empty());
}

TEST_CASE("a signal scope restores handlers and leaves ignored signals alone") {
  const auto old = ::signal(SIGUSR1, SIG_IGN);
  {
    SignalScope signals({SIGUSR1, SIGUSR2});
    CHECK_THROWS_AS(SignalScope({SIGUSR1}), am::Error);
    ::raise(SIGUSR1);
    CHECK(signals.take().empty());
  }
  CHECK(::signal(SIGUSR1, old) == SIG_IGN);
  const int status = status_of([] {
    ::raise(SIGUSR2);
    return 0;
  });
  CHECK(WIFSIGNALED(status));
}
