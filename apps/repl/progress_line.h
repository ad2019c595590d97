// Draws a progress line on stderr for users at a terminal. The line appears when a command that
// reports progress takes longer than half a second. It disappears when the command ends.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "am/inspect/interpreter.h"
#include "am/inspect/progress.h"
#include "am/term/style.h"

namespace am_repl {

// Progress line of one command, drawn by a thread until the object is destroyed.
class ProgressLine {
 public:
  ProgressLine(const am::inspect::Progress& progress, std::string command, am::term::Style style);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

 private:
  void run();

  const am::inspect::Progress& progress_;
  const std::string command_;
  const am::term::Style style_;  // style of stderr
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

// Returns the text of the line for a command that has read `done` of `total` bytes in `seconds`
// seconds. For example:
// "stats  ███████████               48%  3.90 GiB of 8.00 GiB, 2.10 GiB/s"
std::string progress_text(const std::string& command, int64_t done, int64_t total, double seconds,
                          const am::term::Style& style);

// Interpreter that runs commands with `inner` and shows a progress line for each command. `inner`
// must report to `progress`, which must outlive this object.
class WatchedInterpreter : public am::inspect::Interpreter {
 public:
  WatchedInterpreter(std::unique_ptr<am::inspect::Interpreter> inner,
                     am::inspect::Progress& progress, am::term::Style style)
      : inner_(std::move(inner)), progress_(progress), style_(style) {}

  const am::inspect::SessionFacts& facts() const override { return inner_->facts(); }
  am::inspect::Outcome run(const std::string& input) override;
  void set_window(int columns, int rows) override {
    style_.width = columns;
    style_.height = rows;
    inner_->set_window(columns, rows);
  }

 private:
  std::unique_ptr<am::inspect::Interpreter> inner_;
  am::inspect::Progress& progress_;
  am::term::Style style_;
};

}  // namespace am_repl
