// Text for people that never holds up who writes it.
//
//   BackgroundOutput err(STDERR_FILENO);
//   err.write("step 12 ...\n");                  // returns at once
//   err.flush(std::chrono::seconds(5));          // at the end
//
// A terminal paused with Ctrl-S, a pager that waits or a stuck log shipper holds up one thread here
// and nothing else. What does not fit into the buffer meanwhile is dropped, and said so when the
// reader goes on; a reader that has gone is no error, and no SIGPIPE.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

namespace am::launch {

class BackgroundOutput {
 public:
  // The descriptor stays the caller's, and open for the process's life: a write that is under way
  // cannot be called back. At most `capacity` bytes wait. Throws Error(kRuntime) when no thread can
  // be started.
  explicit BackgroundOutput(int fd, size_t capacity = size_t{1} << 20);
  BackgroundOutput(const BackgroundOutput&) = delete;
  BackgroundOutput& operator=(const BackgroundOutput&) = delete;
  // Does not wait: flush() does.
  ~BackgroundOutput();

  // Whole, or dropped. From any thread. Control characters but newlines, tabs and the sequences of
  // Style::paint() are written as '?'.
  void write(std::string_view text);
  // The bytes of another program, as they are.
  void pass_on(std::string_view bytes);

  // Waits until everything is written, or nobody reads any more; at most so long. False when bytes
  // still wait.
  bool flush(std::chrono::milliseconds patience);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
};

}  // namespace am::launch
