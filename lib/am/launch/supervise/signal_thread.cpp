#include "am/launch/supervise/signal_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "am/base/error.h"
#include "am/base/text.h"

// Note [No handler on a computing thread]
//
// The kernel writes a handler's frame, about 3 KiB with AVX-512's registers, below the stack
// pointer of the interrupted thread. Generated code may use the stack pointer's register for other
// values while it computes. In torch 2.11, oneDNN's float32 matmuls (jit_avx512_common_gemm_f32 and
// the AVX2 counterpart) point this register into the heap. The frame then overwrites heap memory,
// even if the handler does nothing. Two defences:
//
//   1. Asynchronous signals are blocked in every thread except one that only handles signals. The
//      block also covers handlers of other libraries, without their cooperation.
//   2. Handlers of automesh run on an alternate stack (SA_ONSTACK), which SignalThread creates for
//      the program's first thread. The alternate stack covers signals that this thread raises
//      itself and that therefore cannot be blocked.
//
// A signal with its default action writes no frame, and ends or stops the process as usual.

namespace am::launch {
namespace {

std::atomic<bool> g_lives = false;

sigset_t asynchronous_signals() {
  sigset_t set;
  sigfillset(&set);  // glibc excludes its own two signals
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPIPE,
                           SIGTSTP, SIGTTIN, SIGTTOU}) {
    sigdelset(&set, signal);
  }
  return set;
}

void take_signals_until(int end_fd, const sigset_t& open) {
  ::pthread_sigmask(SIG_UNBLOCK, &open, nullptr);
  uint64_t ignored = 0;
  while (::read(end_fd, &ignored, sizeof(ignored)) < 0 && errno == EINTR) {
  }
}

}  // namespace

AlternateStack::AlternateStack() {
  stack_t current = {};
  if (::sigaltstack(nullptr, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0) return;
  constexpr long kLeast = 64 * 1024;  // sysconf() returns -1 before glibc 2.34
  const auto size = static_cast<size_t>(std::max(kLeast, ::sysconf(_SC_SIGSTKSZ)));
  memory_ = std::make_unique<std::byte[]>(size);
  stack_t own = {};
  own.ss_sp = memory_.get();
  own.ss_size = size;
  ::sigaltstack(&own, nullptr);
}

AlternateStack::~AlternateStack() {
  if (memory_ == nullptr) return;
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
}

SignalThread::SignalThread() {
  if (g_lives.exchange(true)) return;
  const auto fail = [](const char* what, int reason) {
    g_lives = false;
    throw Error(ErrorKind::kRuntime, cat(what, ": ", std::strerror(reason)));
  };
  end_fd_ = ::eventfd(0, EFD_CLOEXEC);
  if (end_fd_ < 0) fail("cannot make an event descriptor", errno);
  const sigset_t signals = asynchronous_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
  try {
    thread_ = std::thread([fd = end_fd_, signals] { take_signals_until(fd, signals); });
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    ::close(end_fd_);
    fail("cannot start the thread that takes signals", error.code().value());
  }
}

SignalThread::~SignalThread() {
  if (end_fd_ < 0) return;
  const uint64_t one = 1;
  while (::write(end_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
  ::close(end_fd_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  g_lives = false;
}

struct sigaction set_signal_handler(int signal, void (*handler)(int),
                                    std::initializer_list<int> blocked) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  for (const int other : blocked) sigaddset(&action.sa_mask, other);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  struct sigaction old = {};
  ::sigaction(signal, &action, &old);
  return old;
}

}  // namespace am::launch
