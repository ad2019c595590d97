#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "am/base/error.h"
#include "am/launch/supervise/signal_scope.h"
#include "am/launch/supervise/signal_thread.h"
#include "am/launch/supervise/stop_signal.h"
#include "launch/supervise/default_action.h"

using namespace am::launch;

namespace {

// Sends the signal to this process, and waits up to about 5 seconds until `handled` returns true.
// Returns the last result of `handled`.
template <typename Handled>
bool send(int signal, Handled handled) {
  ::kill(::getpid(), signal);
  for (int i = 0; i < 5000 && !handled(); ++i) ::usleep(1000);
  return handled();
}

// Variant for a signal whose effect the test cannot observe at once: waits 50 ms, which is enough
// for the signal's handler to run.
void send(int signal) {
  ::kill(::getpid(), signal);
  ::usleep(50000);
}

// Runs `body` in a child process and returns the child's wait status.
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
  CHECK(send(signal, [&] { return stop.requested(); }));
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
    send(SIGINT);
    send(SIGTERM);
    return stop.requested() ? 7 : 8;
  });
  CHECK(WIFEXITED(once));
  CHECK(WEXITSTATUS(once) == 7);
  const int twice = status_of([] {
    StopSignal stop(0.05);
    send(SIGTERM, [&] { return stop.requested(); });
    ::usleep(100000);
    send(SIGTERM);
    return 0;
  });
  CHECK(WIFSIGNALED(twice));
  CHECK(WTERMSIG(twice) == SIGTERM);
}

TEST_CASE("after a request from inside the first signal is still the first") {
  const int once = status_of([] {
    StopSignal stop(0.0);
    stop.request();
    send(SIGTERM, [&] { return stop.signal() != 0; });
    return stop.signal();
  });
  CHECK(WIFEXITED(once));
  CHECK(WEXITSTATUS(once) == SIGTERM);
}

TEST_CASE("an ignored SIGINT stays ignored") {
  const int status = status_of([] {
    ::signal(SIGINT, SIG_IGN);
    StopSignal stop;
    send(SIGINT);
    return stop.requested() ? 1 : 0;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("one StopSignal at a time") {
  StopSignal stop;
  CHECK_THROWS_AS(StopSignal(), am::Error);
  CHECK(send(SIGTERM, [&] { return stop.requested(); }));  // the first StopSignal still works
}

TEST_CASE("SIGUSR1 and SIGUSR2 ask for a checkpoint, not for a stop") {
  const int signal = GENERATE(SIGUSR1, SIGUSR2);
  StopSignal stop;
  CHECK_FALSE(stop.take_save_request());
  CHECK(send(signal, [&, asked = false]() mutable {
    asked = asked || stop.take_save_request();
    return asked;
  }));
  CHECK_FALSE(stop.take_save_request());
  CHECK_FALSE(stop.requested());
}

namespace {

// Id of the thread on which note_thread() ran, or 0 if note_thread() did not run.
std::atomic<pid_t> g_handled_by = 0;

void note_thread(int) { g_handled_by = ::gettid(); }

// Installs a signal handler without an alternate stack, as other libraries do, until the object is
// destroyed.
class ForeignHandler {
 public:
  explicit ForeignHandler(int signal) : signal_(signal), old_(::signal(signal, note_thread)) {
    g_handled_by = 0;
  }
  ~ForeignHandler() { ::signal(signal_, old_); }

 private:
  int signal_;
  void (*old_)(int);
};

}  // namespace

TEST_CASE("no thread but one takes signals, also those of foreign handlers") {
  const int signal = GENERATE(SIGUSR1, SIGPROF, SIGALRM, SIGRTMIN + 3);
  const ForeignHandler handler(signal);
  const SignalThread signals;
  const pid_t self = ::gettid();
  std::atomic<bool> end = false;
  std::atomic<pid_t> later = 0;
  std::thread computing([&] {
    later = ::gettid();
    while (!end) {
    }
  });
  CHECK(send(signal, [] { return g_handled_by != 0; }));
  CHECK(g_handled_by != self);
  CHECK(g_handled_by != later);
  end = true;
  computing.join();
}

TEST_CASE("signals of a thread's own making and of the terminal stay open everywhere") {
  const SignalThread signals;
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  for (const int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPIPE, SIGTSTP, SIGTTIN}) {
    CHECK(sigismember(&blocked, open) == 0);
  }
  for (const int shut : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD, SIGWINCH}) {
    CHECK(sigismember(&blocked, shut) == 1);
  }
}

TEST_CASE("the last signal thread restores the mask, and the default action still ends") {
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  {
    const SignalThread outer;
    const SignalThread inner;  // a second SignalThread has no effect
  }
  sigset_t after;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) {
    CHECK(sigismember(&before, signal) == sigismember(&after, signal));
  }
  const int status = status_of([] {
    const SignalThread signals;
    send(SIGUSR2);
    return 0;
  });
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("our handlers run on the alternate stack where a thread has one") {
  static std::atomic<bool> inside = false;
  const AlternateStack stack;
  stack_t expected = {};
  ::sigaltstack(nullptr, &expected);
  static stack_t now = {};
  const auto handler = [](int) {
    ::sigaltstack(nullptr, &now);
    inside = true;
  };
  const auto old = set_signal_handler(SIGURG, handler);
  ::raise(SIGURG);
  ::sigaction(SIGURG, &old, nullptr);
  REQUIRE(inside);
  CHECK((now.ss_flags & SS_ONSTACK) != 0);
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
