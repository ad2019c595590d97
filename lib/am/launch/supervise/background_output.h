// Output to a terminal or log that never blocks the calling thread.
//
//   BackgroundOutput err(STDERR_FILENO);
//   err.write("step 12 ...\n");                  // returns immediately
//   err.flush(std::chrono::seconds(5));          // at the end
//
// A terminal paused with Ctrl-S, a waiting pager or a stuck log shipper blocks only the thread of
// this object. Meanwhile, text that does not fit into the buffer is dropped. The next text that
// fits is preceded by a line with the number of dropped bytes. A closed reader is not an error and
// raises no SIGPIPE.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

namespace am::launch {

class BackgroundOutput {
 public:
  // The caller keeps ownership of the descriptor and must leave it open until the process ends: a
  // write in progress cannot be cancelled. The buffer holds at most `capacity` bytes. Throws
  // Error(kRuntime) if the thread cannot be started.
  explicit BackgroundOutput(int fd, size_t capacity = size_t{1} << 20);
  BackgroundOutput(const BackgroundOutput&) = delete;
  BackgroundOutput& operator=(const BackgroundOutput&) = delete;
  // Does not wait for pending output; call flush() for that.
  ~BackgroundOutput();

  // Writes the text entirely or drops it. Thread-safe. Control characters other than newlines, tabs
  // and the colour sequences of Style::paint() are written as '?'.
  void write(std::string_view text);
  // Works like write(), but leaves control characters unchanged: for the output of other programs.
  void pass_on(std::string_view bytes);

  // Waits until all text is written or a write has failed, at most for `patience`. Returns false if
  // bytes are still pending.
  bool flush(std::chrono::milliseconds patience);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
};

}  // namespace am::launch
