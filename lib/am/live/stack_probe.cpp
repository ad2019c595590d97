#include "am/live/stack_probe.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/tensor/side_stream.h"

namespace am::live {

namespace {

constexpr int kMostFrames = 64;
// Number of innermost frames to omit: the signal handler, and the trampoline through which the
// handler returns.
constexpr int kOwnFrames = 2;

// A stack trace, which the signal handler writes to the pipe. The size of a Record is at most
// PIPE_BUF, so that the write is atomic.
struct Record {
  int64_t question = 0;
  int32_t count = 0;
  void* frames[kMostFrames];
};
static_assert(sizeof(Record) <= 4096);

std::atomic<int> g_pipe{-1};  // global, because the signal handler has no context argument
std::atomic<int64_t> g_question{0};

int probe_signal() { return SIGRTMIN + 11; }

void write_stack(int) {
  const int before = errno;
  const int fd = g_pipe;
  if (fd >= 0) {
    Record record;
    record.question = g_question;
    record.count = ::backtrace(record.frames, kMostFrames);
    if (::write(fd, &record, sizeof record) < 0) {
      // The pipe is full of earlier stack traces that no thread has read. This trace is dropped.
    }
  }
  errno = before;
}

std::string name_of_frame(void* address) {
  Dl_info info = {};
  // Looks up address - 1: if a call is the last instruction of a function, its return address is
  // the first byte of the next function.
  void* const inside = static_cast<char*>(address) - 1;
  if (::dladdr(inside, &info) == 0 || info.dli_fname == nullptr) {
    return cat("0x", std::hex, reinterpret_cast<uintptr_t>(address));
  }
  std::string_view file = info.dli_fname;
  file.remove_prefix(file.rfind('/') + 1);
  if (info.dli_sname == nullptr) {
    const auto offset =
        reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(info.dli_fbase);
    return cat(file, " +0x", std::hex, offset);
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  std::string name = readable ? readable.get() : info.dli_sname;
  constexpr size_t kLongest = 160;  // longer names, mostly of templates, are shortened
  if (name.size() > kLongest) name = cat(name.substr(0, kLongest), "...");
  return cat(name, "  (", file, ")");
}

// Unblocks the signal of the probe in the calling thread. Returns the previous signal mask of the
// thread.
sigset_t let_probe_in() {
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, probe_signal());
  ::pthread_sigmask(SIG_UNBLOCK, &one, &before);
  return before;
}

// Returns the autograd thread of a device, which exists until the process ends; nothing for the
// CPU. Runs the backward of one scalar with a hook, which finds the thread and unblocks the signal
// in it.
std::optional<pthread_t> prepare_device_thread(c10::Device device) {
  if (!tensor::is_asynchronous(device)) return std::nullopt;
  std::optional<pthread_t> found;
  const at::AutoGradMode with_graph(true);
  const at::Tensor one = at::ones({}, at::TensorOptions(device)).requires_grad_(true);
  one.register_hook([&found](const at::Tensor&) {
    thread_local const launch::AlternateStack stack;
    let_probe_in();
    found = ::pthread_self();
  });
  (one * 1.0).backward();
  return found;
}

}  // namespace

StackProbe::StackProbe(c10::Device device) : thread_(::pthread_self()) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw Error(ErrorKind::kRuntime, cat("cannot create a pipe: ", std::strerror(errno)));
  }
  read_fd_ = fds[0];
  write_fd_ = fds[1];
  void* warm[1];
  ::backtrace(warm, 1);  // loads libgcc here, because a signal handler must not load it
  int nobody = -1;
  active_ = g_pipe.compare_exchange_strong(nobody, write_fd_);
  if (!active_) return;
  before_ = launch::set_signal_handler(probe_signal(), write_stack);
  mask_before_ = let_probe_in();
  device_thread_ = prepare_device_thread(device);
}

StackProbe::~StackProbe() {
  const std::lock_guard lock(asking_);
  if (active_) {
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    g_pipe = -1;
    ::sigaction(probe_signal(), &before_, nullptr);
  }
  ::close(read_fd_);
  ::close(write_fd_);
}

std::vector<std::string> StackProbe::take(std::chrono::milliseconds patience) {
  return take_of(thread_, patience);
}

std::vector<std::string> StackProbe::take_of_device(std::chrono::milliseconds patience) {
  return device_thread_ ? take_of(*device_thread_, patience) : std::vector<std::string>();
}

std::vector<std::string> StackProbe::take_of(pthread_t thread, std::chrono::milliseconds patience) {
  const std::lock_guard lock(asking_);
  std::vector<std::string> names;
  if (!active_) return names;
  const int64_t question = ++g_question;
  if (::pthread_kill(thread, probe_signal()) != 0) return names;
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return names;
    pollfd wait{read_fd_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    Record record;
    if (::read(read_fd_, &record, sizeof record) != sizeof record) continue;
    if (record.question != question) continue;  // the late answer to an earlier take()
    for (int i = kOwnFrames; i < record.count; ++i)
      names.push_back(name_of_frame(record.frames[i]));
    return names;
  }
}

}  // namespace am::live
