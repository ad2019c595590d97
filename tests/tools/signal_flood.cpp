// signal_flood COUNT [--unguarded]: computes matrix products while many signals arrive.
//
// A child process sends COUNT signals to this process while two threads multiply matrices. The
// signal handler is an ordinary one, which any library may install. With launch::SignalThread, the
// handler never runs on the two threads, and repeated products of the same matrix must be equal bit
// by bit. With --unguarded there is no SignalThread: after some tens of signals, the process dies.
// oneDNN's kernels point the stack pointer into the heap, where a handler's frame then overwrites
// memory (see Note [No handler on a computing thread]).
#include <ATen/ATen.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

#include "am/launch/supervise/signal_thread.h"
#include "am/nn/fused/product.h"

namespace {

std::atomic<int> g_handled = 0;
std::atomic<bool> g_wrong = false;

void count_signal(int) { ++g_handled; }

template <typename End>
void multiply_until(End end) {
  const auto multiply = [](const at::Tensor& a) { return am::nn::fused::product(a, a.t()); };
  // `large` is large enough for the processor's matrix unit, if it has one.
  const at::Tensor small = at::linspace(-2, 1, 64 * 160).view({64, 160});
  const at::Tensor large = at::linspace(-1, 2, 256 * 300).view({256, 300});
  const at::Tensor of_small = multiply(small), of_large = multiply(large);
  while (!end()) {
    if (!multiply(small).equal(of_small) || !multiply(large).equal(of_large)) g_wrong = true;
  }
}

[[noreturn]] void send_signals(pid_t to, int count) {
  for (int i = 0; i < count && ::getppid() == to; ++i) {
    ::kill(to, SIGUSR2);
    ::usleep(100);
  }
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 3000;
  std::optional<am::launch::SignalThread> signals;
  if (argc < 3 || std::string_view(argv[2]) != "--unguarded") signals.emplace();
  std::signal(SIGUSR2, count_signal);
  const pid_t self = ::getpid();
  const pid_t sender = ::fork();
  if (sender == 0) send_signals(self, count);
  std::atomic<bool> end = false;
  std::thread other([&] { multiply_until([&] { return end.load(); }); });
  multiply_until([&] { return ::waitpid(sender, nullptr, WNOHANG) == sender; });
  end = true;
  other.join();
  std::printf("%d signals handled (those that came while one was pending are one)\n",
              g_handled.load());
  return g_wrong || g_handled == 0 ? 1 : 0;
}
