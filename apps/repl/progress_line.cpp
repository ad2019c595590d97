#include "repl/progress_line.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/command.h"
#include "am/term/bars.h"

namespace am_repl {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 500ms;
constexpr auto kPeriod = 100ms;

}  // namespace

std::string progress_text(const std::string& command, int64_t done, int64_t total, double seconds,
                          const am::term::Style& style) {
  constexpr int kBarColumns = 24;
  const int64_t seen = std::min(done, total);
  const auto rate = static_cast<int64_t>(static_cast<double>(done) / seconds);
  return am::term::bar({command, static_cast<double>(seen),
                        am::cat(seen * 100 / total, "%  ", am::format_bytes(seen), " of ",
                                am::format_bytes(total), ", ", am::format_bytes(rate), "/s")},
                       kBarColumns, style, static_cast<double>(total));
}

ProgressLine::ProgressLine(const am::inspect::Progress& progress, std::string command,
                           am::term::Style style)
    : progress_(progress),
      command_(std::move(command)),
      style_(style),
      thread_([this] { run(); }) {}

ProgressLine::~ProgressLine() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ProgressLine::run() {
  const auto begin = std::chrono::steady_clock::now();
  bool drawn = false;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, drawn ? kPeriod : kPatience, [this] { return over_; })) {
    const int64_t total = progress_.total();
    if (total <= 0) continue;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const std::string text = progress_text(command_, progress_.done(), total, took.count(), style_);
    if (am::term::visible_width(text) >= style_.width) continue;
    std::fputs(am::cat("\r", text, "\x1b[K").c_str(), stderr);
    drawn = true;
  }
  if (drawn) std::fputs("\r\x1b[K", stderr);
}

am::inspect::Outcome WatchedInterpreter::run(const std::string& input) {
  progress_.begin();
  const am::inspect::Command* command = am::inspect::command_of(input);
  const ProgressLine line(progress_, command == nullptr ? "" : std::string(command->name), style_);
  return inner_->run(input);
}

}  // namespace am_repl
