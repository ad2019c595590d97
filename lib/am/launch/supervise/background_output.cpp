#include "am/launch/supervise/background_output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/term/printable.h"

namespace am::launch {

struct BackgroundOutput::State {
  State(int descriptor, size_t most) : fd(descriptor), capacity(most) {}

  const int fd;
  const size_t capacity;
  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;
  size_t dropped = 0;    // number of bytes dropped since the last accepted text
  bool writing = false;  // whether the thread is writing bytes that it removed from `waiting`
  bool broken = false;   // whether a write failed, usually because the reader has closed its end
  bool ended = false;    // whether the BackgroundOutput was destroyed
};

namespace {

// Writes the text. Returns false if a write fails, usually because the reader has closed its end.
// Waits after EAGAIN, because another owner of the descriptor may have made the descriptor
// non-blocking.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Blocks SIGPIPE for this thread only. write() then fails with EPIPE after the reader has closed
// its end.
void block_sigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

template <typename State>
void write_in_background(const std::shared_ptr<State>& state) {
  block_sigpipe();
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return !state->waiting.empty() || state->ended; });
    if (state->waiting.empty() || state->broken) return;
    const std::string text = std::exchange(state->waiting, {});
    state->writing = true;
    lock.unlock();
    const bool written = write_all(state->fd, text);
    lock.lock();
    state->writing = false;
    if (!written) {
      state->broken = true;
      state->waiting.clear();
    }
    state->changed.notify_all();
    if (state->broken) return;
  }
}

}  // namespace

BackgroundOutput::BackgroundOutput(int fd, size_t capacity)
    : state_(std::make_shared<State>(fd, capacity)) {
  try {
    std::thread([state = state_] { write_in_background(state); }).detach();
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::kRuntime,
                cat("cannot start the thread that writes the output: ", error.code().message()));
  }
}

BackgroundOutput::~BackgroundOutput() {
  const std::lock_guard lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
}

void BackgroundOutput::write(std::string_view text) { pass_on(term::printable_lines(text)); }

void BackgroundOutput::pass_on(std::string_view text) {
  const std::lock_guard lock(state_->mutex);
  if (state_->broken) return;
  std::string note;
  if (state_->dropped > 0) note = cat("[", state_->dropped, " bytes were not shown]\n");
  if (state_->waiting.size() + note.size() + text.size() > state_->capacity) {
    state_->dropped += text.size();
    return;
  }
  state_->dropped = 0;
  state_->waiting += note;
  state_->waiting += text;
  state_->changed.notify_all();
}

bool BackgroundOutput::flush(std::chrono::milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, patience, [&] {
    return state_->broken || (state_->waiting.empty() && !state_->writing);
  });
}

}  // namespace am::launch
