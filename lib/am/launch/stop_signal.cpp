#include "am/launch/stop_signal.h"

#include <atomic>
#include <cstdint>
#include <ctime>

#include "am/base/error.h"

namespace am::launch {
namespace {

// What a handler may touch: lock-free atomics. -1 stands for request().
std::atomic<int> g_asked_by = 0;
std::atomic<int64_t> g_asked_at = 0;  // nanoseconds of the monotonic clock
std::atomic<int64_t> g_same_request = 0;
std::atomic<bool> g_installed = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

int64_t monotonic_nanoseconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // one of the calls that a handler may make
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
  // Delivered with its default action when this handler returns.
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void install(int signal, struct sigaction& old) {
  struct sigaction action = {};
  action.sa_handler = am_stop_signal_handler;
  sigemptyset(&action.sa_mask);
  // Both, so that the second handler never interrupts the first halfway.
  sigaddset(&action.sa_mask, SIGTERM);
  sigaddset(&action.sa_mask, SIGINT);
  // Restart, so that reads in progress do not see EINTR.
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, &old);
}

}  // namespace

StopSignal::StopSignal(double same_request_seconds) {
  AM_ASSERT(!g_installed.exchange(true), "a second StopSignal while one is alive");
  g_asked_by = 0;
  g_asked_at = 0;
  g_same_request = static_cast<int64_t>(same_request_seconds * 1e9);
  install(SIGTERM, old_term_);
  install(SIGINT, old_int_);
  if (old_int_.sa_handler == SIG_IGN) ::sigaction(SIGINT, &old_int_, nullptr);
}

StopSignal::~StopSignal() {
  ::sigaction(SIGTERM, &old_term_, nullptr);
  ::sigaction(SIGINT, &old_int_, nullptr);
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

}  // namespace am::launch
