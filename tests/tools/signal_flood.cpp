// signal_flood COUNT [--unguarded]: matrix products under a flood of signals.
//
// A child sends COUNT signals to this process, whose handler is of the ordinary kind that any
// library may install, while two threads multiply. With launch::SignalThread the handler never runs
// on them, and every product equals the first bit by bit. With --unguarded there is no such thread:
// oneDNN's kernels then lose their heap to the handler's frames after some tens of signals (see
// Note [No handler on a computing thread]), and the process dies.
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
  // The second is large enough for a matrix unit.
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
