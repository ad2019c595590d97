#include "am/launch/supervise/stop_signal.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>

#include "am/base/error.h"

namespace am::launch {
namespace {

// State that signal handlers access, so all variables are lock-free atomics.
std::atomic<int> g_asked_by = 0;  // signal that requested the stop; -1: request() did; 0: no stop
std::atomic<int64_t> g_asked_at = 0;  // time of the stop signal: monotonic clock, in ns
// Nanoseconds after the first signal in which further signals count as the same request.
std::atomic<int64_t> g_same_request = 0;
std::atomic<bool> g_save = false;
std::atomic<bool> g_installed = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

int64_t monotonic_nanoseconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // async-signal-safe
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

extern "C" void am_stop_signal_handler(int signal) {
  const int64_t now = monotonic_nanoseconds();
  if (g_asked_by.load() <= 0) {
    g_asked_by = signal;
    g_asked_at = now;
    return;
  }
  if (now - g_asked_at.load() < g_same_request.load()) return;
  // The raised signal is delivered, with its default action, when this handler returns.
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

extern "C" void am_save_signal_handler(int) { g_save = true; }

// Waits until pending signals are handled. The signal thread may not have handled them yet, and the
// old actions, which the destructor then restores, could kill the process. The wait ends after
// about 1 s, because possibly no thread handles the signals.
void wait_for_pending(const std::vector<std::pair<int, struct sigaction>>& handled) {
  const auto any_pending = [&] {
    sigset_t pending;
    ::sigpending(&pending);
    return std::any_of(handled.begin(), handled.end(),
                       [&](const auto& each) { return sigismember(&pending, each.first) == 1; });
  };
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries && any_pending(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

StopSignal::StopSignal(double same_request_seconds) {
  AM_ASSERT(!g_installed.exchange(true), "a second StopSignal while one is alive");
  g_asked_by = 0;
  g_asked_at = 0;
  g_save = false;
  g_same_request = static_cast<int64_t>(same_request_seconds * 1e9);
  const auto install = [this](int signal, void (*handler)(int)) {
    struct sigaction old = {};
    ::sigaction(signal, nullptr, &old);
    // An ignored signal other than SIGTERM stays ignored, for example SIGINT in a job that a shell
    // started with `&`.
    if (old.sa_handler == SIG_IGN && signal != SIGTERM) return;
    // Blocks SIGTERM and SIGINT while a handler runs, so that the stop handler interrupts neither
    // itself nor the save handler.
    old_.emplace_back(signal, set_signal_handler(signal, handler, {SIGTERM, SIGINT}));
  };
  install(SIGTERM, am_stop_signal_handler);
  install(SIGINT, am_stop_signal_handler);
  install(SIGUSR1, am_save_signal_handler);
  install(SIGUSR2, am_save_signal_handler);
}

StopSignal::~StopSignal() {
  wait_for_pending(old_);
  for (const auto& [signal, old] : old_) ::sigaction(signal, &old, nullptr);
  g_installed = false;
}

bool StopSignal::requested() const { return g_asked_by.load() != 0; }

int StopSignal::signal() const {
  const int asked_by = g_asked_by.load();
  return asked_by > 0 ? asked_by : 0;
}

void StopSignal::request() {
  int expected = 0;
  g_asked_by.compare_exchange_strong(expected, -1);
}

bool StopSignal::take_save_request() const { return g_save.exchange(false); }

}  // namespace am::launch
